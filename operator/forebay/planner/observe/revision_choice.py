"""The choice of a service's target revision, and of the stored revisions to delete.

What the user wrote decides (`spec_hash`), not what the current operator version resolves it to. So a new operator
version, catalog or default restarts no pod.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.world.plan import DeleteRevision, StoreRevision
from forebay.world.world import Revision

KEPT_UNUSED: Final = 10
"""How many revisions without pods are kept for rollbacks."""


@dataclass(frozen=True, slots=True)
class RevisionChoice:
    target: Revision
    store: StoreRevision | None = None
    """The revision to store before pods are created from it; None when it is stored already."""
    update_available: bool = False
    """Whether the current operator version would build the pods differently."""


def choose(wanted: Revision, stored: Sequence[Revision]) -> RevisionChoice:
    """The revision to roll to. Each variant has its own revisions. The first of these that exists is chosen:

    - the newest stored revision, when its `spec_hash` is that of the spec, whatever the spec resolves to now
    - an older stored revision with that `spec_hash`: the user has rolled back, so it is used unchanged and becomes the
      newest
    - a stored revision that resolves alike but was written differently: no pod would change, so only its `spec_hash` is
      updated
    - what the spec resolves to now
    """
    ours = (revision for revision in stored if revision.variant == wanted.variant)
    by_age = sorted(ours, key=lambda revision: (revision.number, revision.hash))
    if not by_age:
        return _to_store(replace(wanted, number=1), wanted)
    newest = by_age[-1]
    if newest.spec_hash == wanted.spec_hash:
        return RevisionChoice(newest, update_available=newest.hash != wanted.hash)
    number = newest.number + 1
    for earlier in reversed(by_age):
        if earlier.spec_hash == wanted.spec_hash:
            return _to_store(replace(earlier, number=number), wanted)
    for identical in reversed(by_age):
        if identical.hash == wanted.hash:
            new_number = number if identical is not newest else newest.number
            return _to_store(replace(identical, number=new_number, spec_hash=wanted.spec_hash), wanted)
    return _to_store(replace(wanted, number=number), wanted)


def revisions_to_delete(stored: Sequence[Revision], used: Collection[str]) -> tuple[DeleteRevision, ...]:
    """Unused revisions except the newest ten. `used` are the hashes of targets and of revisions that have pods."""
    unused = [revision for revision in stored if revision.hash not in used]
    newest_first = sorted(unused, key=lambda revision: (-revision.number, revision.hash))
    return tuple(DeleteRevision(revision.name) for revision in newest_first[KEPT_UNUSED:])


def _to_store(target: Revision, wanted: Revision) -> RevisionChoice:
    return RevisionChoice(target, StoreRevision(target), update_available=target.hash != wanted.hash)
