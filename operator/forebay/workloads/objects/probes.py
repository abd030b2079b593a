"""Probes by which the kubelet learns that an engine has started, answers, or hangs.

`/health` is 200 as soon as the port listens, though the first request may still compile kernels for minutes
(vllm#43009). So a pod counts as started only after it has answered one completion; after that `/health` is enough.
"""

from typing import Any, Final

from forebay.api.inference_service import InferenceServiceSpec
from forebay.workloads.spec.lifetimes import (
    PRE_STOP_SECONDS,
    PROBE_TIMEOUT_SECONDS,
    STARTUP_PERIOD_SECONDS,
    TEARDOWN_SECONDS,
    startup_failures,
)

FIRST_COMPLETION: Final = """\
import json, os, sys, urllib.request
port, model = sys.argv[1:]
body = json.dumps({"model": model, "prompt": "Hello", "max_tokens": 1}).encode()
headers = {"Content-Type": "application/json"}
if os.environ.get("VLLM_API_KEY"):
    headers["Authorization"] = "Bearer " + os.environ["VLLM_API_KEY"]
request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body, headers)
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
try:
    with direct.open(request, timeout=8) as answer:
        json.load(answer)["choices"][0]
except Exception as error:
    sys.exit(f"no completion yet: {error}")
"""
"""Runs in the engine's container with the Python that vLLM needs anyway. It times out before the kubelet does, so that
the Event says why. An attempt that times out while kernels compile has still advanced the compilation."""


def startup_probe(spec: InferenceServiceSpec, port: int, model: str) -> dict[str, Any]:
    """One real completion, tried until `startupTimeout`. The grace period is short: a failed engine has no streams to
    finish."""
    return {
        "exec": {"command": ["python3", "-c", FIRST_COMPLETION, str(port), model]},
        "periodSeconds": STARTUP_PERIOD_SECONDS,
        "timeoutSeconds": PROBE_TIMEOUT_SECONDS,
        "failureThreshold": startup_failures(spec),
        "terminationGracePeriodSeconds": PRE_STOP_SECONDS + TEARDOWN_SECONDS,
    }


def readiness_probe() -> dict[str, Any]:
    """The probe succeeds during a drain. A draining pod leaves the endpoints by its label and not by this probe."""
    return _health(period=5, failures=3)


def liveness_probe() -> dict[str, Any]:
    """Long timeouts, because a busy engine answers late. Short ones caused eight false restarts a day."""
    return _health(period=10, failures=6)


def _health(period: int, failures: int) -> dict[str, Any]:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": period,
        "timeoutSeconds": PROBE_TIMEOUT_SECONDS,
        "failureThreshold": failures,
    }
