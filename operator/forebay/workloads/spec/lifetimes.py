"""Lifetimes: durations of the phases of an engine pod, in whole seconds.

A pod ends in these steps: the serving label is removed, the planner drains the pod and deletes it → preStop sleep →
SIGTERM → vLLM finishes its requests within `--shutdown-timeout` → exit. If an engine is killed, or its timeout expires
during a stream, clients hang. So each outer timeout is longer than the sum of the inner ones.
"""

from math import ceil
from typing import Final

from forebay.api.inference_service import InferenceServiceSpec

PRE_STOP_SECONDS: Final = 10
"""Sleep before SIGTERM, in which endpoint lists drop the pod. A request after SIGTERM gets an empty answer."""
TEARDOWN_SECONDS: Final = 30
"""From the last token to the exit of the process; about 10 s were measured on vLLM 0.32."""
STARTUP_PERIOD_SECONDS: Final = 5
PROBE_TIMEOUT_SECONDS: Final = 10
"""Timeout of all probes. It is long, because a busy engine answers late and a restart costs minutes of capacity."""


def drain_seconds(spec: InferenceServiceSpec) -> int:
    """`--shutdown-timeout`: equal to the planner's drain timeout, so that it exceeds the longest request."""
    return ceil(spec.rollout.drain_timeout.seconds)


def grace_seconds(spec: InferenceServiceSpec) -> int:
    """`terminationGracePeriodSeconds`: the sum of preStop, drain and teardown."""
    return PRE_STOP_SECONDS + drain_seconds(spec) + TEARDOWN_SECONDS


def startup_seconds(spec: InferenceServiceSpec) -> int:
    return ceil(spec.engine.startup_timeout.seconds)


def startup_failures(spec: InferenceServiceSpec) -> int:
    """Failed startup probes until the kubelet restarts the engine: `startupTimeout` in probe periods."""
    return max(1, ceil(startup_seconds(spec) / STARTUP_PERIOD_SECONDS))
