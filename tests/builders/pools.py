"""Builders of WarmPools and their placeholders."""

from dataclasses import replace
from typing import Any

from forebay.api.duration import Duration
from forebay.api.warm_pool import PoolSchedule, PoolStatus
from forebay.world.world import PodView, ReplicaShape, ServiceKey, WarmPoolView
from tests.builders.world import GPU, a_place, a_pod, a_service, uid_of


def a_pool(
    name: str = "h100",
    *,
    wanted: int = 2,
    gpus: int = 1,
    schedules: tuple[PoolSchedule, ...] = (),
    **fields: object,
) -> WarmPoolView:
    pool = WarmPoolView(
        key=ServiceKey("forebay-system", name),
        uid=uid_of(name),
        generation=1,
        resource_version="1",
        deleting=False,
        placeholders=wanted,
        place=a_place("same", gpus),
        status=PoolStatus(),
        shape=ReplicaShape(1, gpus, GPU),
        schedules=schedules,
    )
    return replace(pool, **fields)  # type: ignore[arg-type]


def a_peak(placeholders: int = 4, *, name: str = "peak", **fields: Any) -> PoolSchedule:
    """A schedule from 08:00 to noon in Berlin, by default."""
    window = {"start": "0 8 * * *", "time_zone": "Europe/Berlin", "duration": Duration("4h")} | fields
    return PoolSchedule(name=name, placeholders=placeholders, **window)


def holding(pool: WarmPoolView, count: int, first: int = 0, **fields: Any) -> tuple[PodView, ...]:
    """Placeholders of a WarmPool; the arguments are those of `a_pod`."""
    owner = a_service(pool.key.name)
    return tuple(
        replace(
            a_pod(
                owner,
                name=f"{pool.key.name}-{pool.uid[:5]}-placeholder-{number}",
                owner_uid=pool.uid,
                serving=False,
                **fields,
            ),
            key=pool.key,
            service_uid=None,
            place="same",
            revision="",
            ordinal=-1,
        )
        for number in range(first, first + count)
    )
