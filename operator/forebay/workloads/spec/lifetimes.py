"""How long the phases of an engine's life may take, in whole seconds, and how they nest.

A pod ends as: serving label dropped, drain by the planner, delete → preStop sleep → SIGTERM → vLLM finishes what it has
within `--shutdown-timeout` → exit. An engine that is killed, or whose time-out expires in mid-stream, leaves streams
hanging, so each outer time is longer than the inner ones together.
"""

from math import ceil
from typing import Final

from forebay.api.inference_service import InferenceServiceSpec

PRE_STOP_SECONDS: Final = 10
"""Before SIGTERM: time for endpoint lists to drop the pod. A request that comes after SIGTERM gets an empty answer."""
TEARDOWN_SECONDS: Final = 30
"""From the last token to the exit of the process; about 10 s were measured on vLLM 0.32."""
STARTUP_PERIOD_SECONDS: Final = 5
PROBE_TIMEOUT_SECONDS: Final = 10
"""Of the start and health probes. A busy engine answers late, and a restart costs minutes of capacity."""


def drain_seconds(spec: InferenceServiceSpec) -> int:
    """`--shutdown-timeout`: as long as the planner gives a drain, so that it exceeds the longest request."""
    return ceil(spec.rollout.drain_timeout.seconds)


def grace_seconds(spec: InferenceServiceSpec) -> int:
    """`terminationGracePeriodSeconds`: more than preStop, drain and teardown may take."""
    return PRE_STOP_SECONDS + drain_seconds(spec) + TEARDOWN_SECONDS


def startup_seconds(spec: InferenceServiceSpec) -> int:
    return ceil(spec.engine.startup_timeout.seconds)


def startup_failures(spec: InferenceServiceSpec) -> int:
    """Failed probes until the kubelet gives up: `startupTimeout`, in periods."""
    return max(1, ceil(startup_seconds(spec) / STARTUP_PERIOD_SECONDS))
