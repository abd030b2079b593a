"""Derived views: what the World computes from cached views, as the identical objects while their inputs are the same.

The planner compares its inputs with those of the last tick. Comparing by identity costs nothing, so a service whose
revisions, nodes and pods are the same objects need not be compared field by field.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from forebay.cluster.read.views import OwnedRevision
from forebay.world.world import NodeView, Revision


class RevisionsByOwner:
    """The stored revisions of each owner, oldest first."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Revision, ...]] = {}

    def of(self, stored: Iterable[OwnedRevision]) -> Mapping[str, tuple[Revision, ...]]:
        by_owner: dict[str, list[Revision]] = {}
        for each in stored:
            if each.owner_uid is not None and each.revision is not None:
                by_owner.setdefault(each.owner_uid, []).append(each.revision)
        before, self._known = self._known, {}
        for uid, revisions in by_owner.items():
            ordered = tuple(sorted(revisions, key=lambda revision: (revision.number, revision.name)))
            self._known[uid] = before[uid] if before.get(uid) == ordered else ordered
        return self._known


class GpuNodes:
    """The nodes without extended resources that are not GPUs, which are those that no revision requests."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[NodeView, NodeView]] = {}
        """By uid: the node as it is stored, and without other resources."""
        self._gpu_names: frozenset[str] = frozenset()

    def of(self, nodes: Mapping[str, NodeView], gpu_names: frozenset[str]) -> tuple[NodeView, ...]:
        before = self._known if gpu_names == self._gpu_names else {}
        self._gpu_names, self._known = gpu_names, {}
        for uid, node in nodes.items():
            known = before.get(uid)
            if known is None or known[0] is not node:
                known = (node, _with_gpus_only(node, gpu_names))
            self._known[uid] = known
        return tuple(node for _, node in self._known.values())


def _with_gpus_only(node: NodeView, gpu_names: frozenset[str]) -> NodeView:
    if node.gpus.keys() <= gpu_names:
        return node
    return replace(node, gpus={name: count for name, count in node.gpus.items() if name in gpu_names})
