"""Placeholder preemption: which pods started in the place of a placeholder, and which places the next pods would take.

The scheduler does not report a preemption. It shows only as a change between two ticks: a placeholder that held a place
is gone, and a replica's pod is on its node. Therefore the places held in the previous tick are remembered. After a
restart there is no such memory, and a start then counts as one on a ready node, whose prior lead time is longer.

A start in a placeholder's place is fast because the image is already on the node. So a place counts only for pods of
the same image.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Self

from forebay.planner.memory import HeldPlace, Preemptions
from forebay.planner.observe.placement import replicas_within, takes
from forebay.world.world import NodeView, PodView, Revision, World

IN_TRANSIT_SECONDS: Final = 60.0
"""How long a place is reserved for the preempting pod after the placeholder is gone. The scheduler binds that pod as
soon as the placeholder's grace period of one second is over."""
SKEW_SECONDS: Final = 5.0
"""How far the API server's clock, which records when a pod got its node, may be behind the operator's."""


def preemptions_of(world: World, before: Preemptions, now: float) -> Preemptions:
    """The places and preemptions as of this tick. The order of pods does not matter."""
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
    """Images by uid of the owner and hash of a revision or a place."""
    images_by_hash: dict[tuple[str, str], str] = {}
    for service in world.services:
        targets = (service.wanted, *(variant.wanted for variant in service.variants))
        for revision in (*world.revisions.get(service.uid, ()), *targets):
            if revision is not None and revision.place is not None:
                images_by_hash[service.uid, revision.hash] = images_by_hash[service.uid, revision.place.hash] = (
                    revision.place.image
                )
    for pool in world.warm_pools:
        if pool.place is not None:
            images_by_hash[pool.uid, pool.place.hash] = pool.place.image
    return images_by_hash


def _held(pods: Iterable[PodView], images: Mapping[tuple[str, str], str], now: float) -> Iterator[HeldPlace]:
    """Places of ready placeholders, whose image is pulled. A terminating placeholder holds no place any more."""
    for pod in pods:
        if pod.place is None or pod.node is None or pod.owner_uid is None:
            continue
        image = images.get((pod.owner_uid, pod.place))
        if image and pod.ready and not pod.deleting:
            yield HeldPlace(pod.uid, pod.owner_uid, pod.node, pod.gpus, image, now)


def _places_for(pod: PodView, image: str, in_transit: Iterable[HeldPlace]) -> list[HeldPlace]:
    """The places in transit whose GPUs this pod received; none when the pod got its node before they became free."""
    if not image or pod.node is None or pod.scheduled_at is None:
        return []
    received: list[HeldPlace] = []
    for place in in_transit:
        if sum(taken.gpus for taken in received) >= max(1, pod.gpus):
            break
        if place.node == pod.node and place.image == image and pod.scheduled_at >= place.at - SKEW_SECONDS:
            received.append(place)
    return received if sum(place.gpus for place in received) >= pod.gpus else []


@dataclass(frozen=True, slots=True)
class HeldPlaces:
    """The held places of all services and pools."""

    nodes: Mapping[str, NodeView]
    places: Mapping[str, tuple[HeldPlace, ...]]
    """By uid of the owner."""
    services_per_pool: Mapping[str, int]
    """Number of services whose pods use the image of a pool's places, by uid of the pool."""

    @classmethod
    def of(cls, world: World, preemptions: Preemptions) -> Self:
        places: dict[str, list[HeldPlace]] = {}
        for place in (*preemptions.held.values(), *preemptions.in_transit):
            places.setdefault(place.owner_uid, []).append(place)
        wanted_places = [
            service.wanted.place
            for service in world.services
            if service.wanted and service.wanted.place and not service.deleting
        ]
        images = Counter(place.image for place in wanted_places)
        return cls(
            nodes={node.name: node for node in world.nodes},
            places={uid: tuple(group) for uid, group in places.items()},
            services_per_pool={
                pool.uid: images[pool.place.image] for pool in world.warm_pools if pool.place is not None
            },
        )

    def replicas_for(self, uid: str, target: Revision) -> int:
        """How many replicas of a service fit into held places: all of its own placeholders', and its share of the
        pools'.

        A pool's places go to the pod that comes first. The services that could use a pool each count an equal share,
        so that two services whose windows open at the same time do not both rely on the same places.
        """
        own = self._replicas(uid, target)
        return own + sum(
            self._replicas(pool, target) // services for pool, services in self.services_per_pool.items() if services
        )

    def _replicas(self, owner_uid: str, target: Revision) -> int:
        if target.place is None:
            return 0
        gpus: dict[str, int] = {}
        for place in self.places.get(owner_uid, ()):
            node = self.nodes.get(place.node)
            if node is not None and place.image == target.place.image and takes(node, target.shape):
                gpus[place.node] = gpus.get(place.node, 0) + place.gpus
        return replicas_within(target.shape, gpus.values())
