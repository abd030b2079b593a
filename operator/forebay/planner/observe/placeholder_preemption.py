"""Handovers: which pods started in the place of a placeholder, and whose place the next ones would take.

The scheduler hands a place over without a word to us: a placeholder that held one is gone, and a pod of a replica is on
its node. Both are seen from one tick to the next, so what was held at the last tick is remembered. After a restart
nothing is, and a start is taken for one on a ready node, whose prior is the longer one.

What makes such a start warm is the image, so a place counts only for pods of the same image.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from forebay.planner.memory import HeldPlace, Preemptions
from forebay.planner.observe.placement import replicas_within, takes
from forebay.world.world import NodeView, PodView, Revision, World

IN_TRANSIT_SECONDS: Final = 60.0
"""How long a place that was given up is still for the pod that displaced the placeholder. The scheduler binds that pod
as soon as the placeholder's grace period of a second is over."""
SKEW_SECONDS: Final = 5.0
"""By which the API server's clock, which says when a pod got its node, may be behind ours."""


def preemptions_of(world: World, before: Preemptions, now: float) -> Preemptions:
    """With what this tick sees. The order of pods does not matter."""
    images = _images(world)
    held = {place.uid: place for place in sorted(_held(world.pods, images, now), key=lambda place: place.uid)}
    gone = (place for uid, place in before.held.items() if uid not in held)
    in_transit = [place for place in (*before.in_transit, *gone) if now - place.at < IN_TRANSIT_SECONDS]
    in_transit.sort(key=lambda place: (place.at, place.uid))
    taken = {pod.uid for pod in world.pods if pod.uid in before.taken}
    for pod in sorted(world.pods, key=lambda pod: (pod.scheduled_at or 0.0, pod.uid)) if in_transit else ():
        if pod.place is None and pod.uid not in taken:
            image = images.get((pod.owner_uid or "", pod.revision), "")
            if places := _places_for(pod, image, in_transit):
                taken.add(pod.uid)
                in_transit = [place for place in in_transit if place not in places]
    return Preemptions(held, tuple(in_transit), frozenset(sorted(taken)))


def _images(world: World) -> dict[tuple[str, str], str]:
    """By owner and hash, of a revision or of a place."""
    found: dict[tuple[str, str], str] = {}
    for service in world.services:
        wanted = (service.wanted, *(variant.wanted for variant in service.variants))
        for revision in (*world.revisions.get(service.uid, ()), *(one for one in wanted if one is not None)):
            if revision.place is not None:
                found[service.uid, revision.hash] = found[service.uid, revision.place.hash] = revision.place.image
    for pool in world.warm_pools:
        if pool.place is not None:
            found[pool.uid, pool.place.hash] = pool.place.image
    return found


def _held(pods: Iterable[PodView], images: Mapping[tuple[str, str], str], now: float) -> Iterator[HeldPlace]:
    """A placeholder that is ready has its image; one that is going gives its place up."""
    for pod in pods:
        if pod.place is None or pod.node is None or pod.owner_uid is None:
            continue
        image = images.get((pod.owner_uid, pod.place))
        if image and pod.ready and not pod.deleting:
            yield HeldPlace(pod.uid, pod.owner_uid, pod.node, pod.gpus, image, now)


def _places_for(pod: PodView, image: str, in_transit: Iterable[HeldPlace]) -> list[HeldPlace]:
    """Of those that were given up, the ones whose GPUs this pod has got; none when it got its node before."""
    if not image or pod.node is None or pod.scheduled_at is None:
        return []
    found: list[HeldPlace] = []
    for place in in_transit:
        if sum(taken.gpus for taken in found) >= max(1, pod.gpus):
            break
        if place.node == pod.node and place.image == image and pod.scheduled_at >= place.at - SKEW_SECONDS:
            found.append(place)
    return found if sum(place.gpus for place in found) >= pod.gpus else []


@dataclass(frozen=True, slots=True)
class HeldPlaces:
    """The places that are held, for all services at once."""

    nodes: Mapping[str, NodeView]
    places: Mapping[str, tuple[HeldPlace, ...]]
    """By uid of the owner."""
    takers: Mapping[str, int]
    """By uid of a pool: services whose pods have the image of its places."""

    @classmethod
    def of(cls, world: World, preemptions: Preemptions) -> Self:
        places: dict[str, list[HeldPlace]] = {}
        for place in (*preemptions.held.values(), *preemptions.in_transit):
            places.setdefault(place.owner_uid, []).append(place)
        wanted = [one.wanted.place for one in world.services if one.wanted and one.wanted.place and not one.deleting]
        images = Counter(place.image for place in wanted)
        return cls(
            nodes={node.name: node for node in world.nodes},
            places={uid: tuple(found) for uid, found in places.items()},
            takers={pool.uid: images[pool.place.image] for pool in world.warm_pools if pool.place is not None},
        )

    def replicas_for(self, uid: str, target: Revision) -> int:
        """Replicas of a service whose places are held: by its own placeholders, and its share of those of pools.

        A pool's places are for whoever comes first. Services that could take them count equal shares, so that two that
        open at the same hour do not both rest on the same places.
        """
        own = self._replicas(uid, target)
        return own + sum(self._replicas(pool, target) // takers for pool, takers in self.takers.items() if takers)

    def _replicas(self, owner_uid: str, target: Revision) -> int:
        if target.place is None:
            return 0
        gpus: dict[str, int] = {}
        for place in self.places.get(owner_uid, ()):
            node = self.nodes.get(place.node)
            if node is not None and place.image == target.place.image and takes(node, target.shape):
                gpus[place.node] = gpus.get(place.node, 0) + place.gpus
        return replicas_within(target.shape, gpus.values())
