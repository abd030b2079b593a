"""EventRecorder: writes Events on InferenceServices at a limited rate; a failed write never fails the tick.

The planner emits events only for transitions. If two states alternate, the same event is written at most every ten
minutes, and a token bucket limits the events of each service.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from forebay.api.instants import micro_time
from forebay.api.schema.base_model import GROUP
from forebay.cluster.client.kube_api import EVENTS, INFERENCE_SERVICES, ApiError, KubeApi
from forebay.world.plan import EventRecord, Plan, ServicePlan

log = logging.getLogger(__name__)

CONTROLLER = f"{GROUP}/operator"
REPEAT_SECONDS = 600.0
"""An event with the same reason and message is not repeated within this time."""
BURST = 25
SECONDS_PER_TOKEN = 60.0
"""Together with `BURST` the limits of client-go's own event filter, at five times its rate."""
WRITE_TIMEOUT_SECONDS = 5.0
"""The timeout of one event; the loop waits for it."""
NOTE_LENGTH = 1024
"""The longest note in bytes; the API server refuses longer ones."""
CONCURRENT_WRITES = 8


@dataclass(slots=True)
class _TokenBucket:
    tokens: float
    filled_at: float


class EventRecorder:
    def __init__(
        self,
        api: KubeApi,
        *,
        instance: str,
        dry_run: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`instance` is the `reportingInstance` of the Events."""
        self._api = api
        self._instance = instance[:128]
        self._dry_run = dry_run
        self._monotonic = monotonic
        self._recorded_at: dict[tuple[str, EventRecord], float] = {}
        self._buckets: dict[str, _TokenBucket] = {}
        self._slots = asyncio.Semaphore(CONCURRENT_WRITES)
        self.recorded = 0
        self.dropped = 0
        """Events that were repeated or above the rate."""
        self.failed = 0

    async def record(self, plan: Plan, now: float) -> None:
        """Write the plan's events with the time `now` (unix seconds); never raises."""
        self._forget(service.uid for service in plan.services)
        due = [
            (service, event) for service in plan.services for event in service.events if self._admit(service.uid, event)
        ]
        await asyncio.gather(*(self._write(service, event, now) for service, event in due))

    def _admit(self, uid: str, event: EventRecord) -> bool:
        monotonic_now = self._monotonic()
        bucket = self._buckets.setdefault(uid, _TokenBucket(BURST, monotonic_now))
        bucket.tokens = min(BURST, bucket.tokens + (monotonic_now - bucket.filled_at) / SECONDS_PER_TOKEN)
        bucket.filled_at = monotonic_now
        recorded_at = self._recorded_at.get((uid, event))
        if (recorded_at is not None and monotonic_now - recorded_at < REPEAT_SECONDS) or bucket.tokens < 1:
            self.dropped += 1
            return False
        bucket.tokens -= 1
        self._recorded_at[uid, event] = monotonic_now
        return True

    def _forget(self, uids: Iterable[str]) -> None:
        """Drop old events, and the buckets of services that no longer exist."""
        monotonic_now, planned = self._monotonic(), set(uids)
        self._recorded_at = {key: at for key, at in self._recorded_at.items() if monotonic_now - at < REPEAT_SECONDS}
        self._buckets = {uid: bucket for uid, bucket in self._buckets.items() if uid in planned}

    async def _write(self, service: ServicePlan, event: EventRecord, now: float) -> None:
        extra = {"service": str(service.key), "reason": event.reason}
        log.info("%s: %s: %s", service.key, event.reason, event.message, extra=extra)
        if self._dry_run:
            return
        try:
            async with self._slots, asyncio.timeout(WRITE_TIMEOUT_SECONDS):
                await self._api.create(EVENTS, service.key.namespace, self._body(service, event, now))
            self.recorded += 1
        except (ApiError, TimeoutError) as error:
            self.failed += 1
            log.debug("%s: the event %s was not written: %s", service.key, event.reason, error)

    def _body(self, service: ServicePlan, event: EventRecord, now: float) -> dict[str, Any]:
        stamp = micro_time(now)
        digest = hashlib.sha256(f"{service.uid} {event} {stamp}".encode()).hexdigest()[:16]
        return {
            "apiVersion": EVENTS.api_version,
            "kind": EVENTS.kind,
            "metadata": {"name": f"{service.key.name}.{digest}", "namespace": service.key.namespace},
            "eventTime": stamp,
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance,
            "action": "Plan",
            "reason": event.reason,
            "type": event.type,
            "note": event.message.encode()[:NOTE_LENGTH].decode(errors="ignore"),
            "regarding": {
                "apiVersion": INFERENCE_SERVICES.api_version,
                "kind": INFERENCE_SERVICES.kind,
                "namespace": service.key.namespace,
                "name": service.key.name,
                "uid": service.uid,
            },
        }
