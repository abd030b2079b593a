"""Fields that every rendered pod must have, for any spec."""

import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from forebay.api import labels
from forebay.api.spec.pod_paths import RESERVED_VOLUMES
from tests.workloads.manifests import MANIFESTS
from tests.workloads.restricted import violations
from tests.workloads.specs import CHAT, a_pod, a_spec, engine_of
from tests.workloads.test_golden import POD_TEMPLATE


@pytest.mark.parametrize("name", [name for name in MANIFESTS if name != "cache-node-path"])
def test_pods_pass_the_restricted_profile(name):
    assert violations(a_pod(a_spec(MANIFESTS[name]))) == []


def test_only_a_cache_on_the_node_needs_more_than_the_restricted_profile():
    assert violations(a_pod(a_spec(MANIFESTS["cache-node-path"]))) == ["volume cache is a hostPath"]


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_writable_directory_is_a_volume(name):
    engine = engine_of(a_pod(a_spec(MANIFESTS[name])))
    writable = [mount["mountPath"] for mount in engine["volumeMounts"] if not mount.get("readOnly")]
    environment = {variable["name"]: variable.get("value") for variable in engine["env"]}
    assert engine["securityContext"]["readOnlyRootFilesystem"] is True
    assert {"/tmp", "/cache"} <= set(writable)
    assert environment["HF_HOME"].startswith("/cache/")
    assert environment["VLLM_CACHE_ROOT"].startswith("/cache/")


@pytest.mark.parametrize("name", MANIFESTS)
def test_every_mount_has_a_volume(name):
    pod = a_pod(a_spec(MANIFESTS[name]))
    volumes = [volume["name"] for volume in pod["spec"]["volumes"]]
    mounts = engine_of(pod)["volumeMounts"]
    assert sorted(volumes) == sorted(mount["name"] for mount in mounts)
    assert len({mount["mountPath"] for mount in mounts}) == len(mounts)


@pytest.mark.parametrize("name", [*MANIFESTS])
def test_the_schema_knows_our_volumes_and_annotations(name):
    """So that a user's own cannot take their names."""
    spec = a_spec(MANIFESTS[name])
    pod = a_pod(spec)
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]} - {volume.name for volume in spec.pod.volumes}
    annotations = pod["metadata"]["annotations"].keys() - (spec.pod.annotations or {}).keys()
    assert volumes <= set(RESERVED_VOLUMES)
    assert annotations == set(labels.POD_ANNOTATIONS)


def test_labels_are_those_of_the_list_and_no_others():
    assert a_pod(a_spec(MANIFESTS["pod-block"]))["metadata"]["labels"].keys() == {
        labels.MANAGED_BY,
        labels.SERVICE,
        labels.SERVICE_UID,
        labels.REVISION,
        labels.ORDINAL,
        labels.RANK,
        labels.SERVING,
    }


def test_a_pod_template_brings_no_labels():
    pod = a_pod(a_spec(pod={"templateRef": "gpu-pods"}), template=POD_TEMPLATE)
    assert "app.kubernetes.io/instance" not in pod["metadata"]["labels"]


def test_the_controller_is_the_service():
    (owner,) = a_pod(a_spec())["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["kind"], owner["apiVersion"], owner["controller"], owner["blockOwnerDeletion"]) == (
        CHAT.uid,
        "InferenceService",
        "forebay.dev/v1alpha1",
        True,
        True,
    )


@pytest.mark.parametrize(
    ("drain_timeout", "shutdown", "grace"),
    [
        pytest.param("300s", 300, 340, id="the default"),
        pytest.param("1h", 3600, 3640, id="long streams"),
        pytest.param("1500ms", 2, 42, id="parts of a second are rounded up"),
    ],
)
def test_the_grace_period_covers_pre_stop_drain_and_teardown(drain_timeout, shutdown, grace):
    pod = a_pod(a_spec(rollout={"drainTimeout": drain_timeout}))
    engine = engine_of(pod)
    assert f"--shutdown-timeout={shutdown}" in engine["args"]
    assert engine["lifecycle"] == {"preStop": {"sleep": {"seconds": 10}}}
    assert pod["spec"]["terminationGracePeriodSeconds"] == grace


@pytest.mark.parametrize(
    ("startup_timeout", "failures"),
    [
        pytest.param("20m", 240, id="the default, in periods of 5 s"),
        pytest.param("12s", 3, id="a started period counts"),
        pytest.param("1s", 1, id="at least one try"),
    ],
)
def test_the_startup_probe_lasts_as_long_as_the_startup_timeout(startup_timeout, failures):
    probe = engine_of(a_pod(a_spec(engine={"startupTimeout": startup_timeout})))["startupProbe"]
    assert (probe["periodSeconds"], probe["failureThreshold"]) == (5, failures)


def test_no_engine_gets_sigterm_before_endpoint_lists_have_dropped_it():
    """A request that comes after SIGTERM gets an empty answer."""
    hooks = engine_of(a_pod(a_spec())).get("lifecycle", {})
    assert hooks.get("preStop", {}).get("sleep", {}).get("seconds", 0) >= 5


def test_a_pod_has_started_only_after_one_real_completion():
    """`/health` is 200 while the first request would still wait minutes for kernels to compile."""
    probe = engine_of(a_pod(a_spec()))["startupProbe"]
    assert "httpGet" not in probe
    assert "/v1/completions" in " ".join(probe["exec"]["command"])


def test_no_service_of_the_namespace_reaches_the_engines_environment():
    """A Service called `vllm` would become VLLM_PORT=tcp://…, which the engine reads."""
    assert a_pod(a_spec())["spec"]["enableServiceLinks"] is False


def test_node_autoscalers_leave_serving_pods_alone():
    annotations = a_pod(a_spec())["metadata"]["annotations"]
    assert annotations["karpenter.sh/do-not-disrupt"] == "true"
    assert annotations["cluster-autoscaler.kubernetes.io/safe-to-evict"] == "false"


def test_an_engine_that_never_started_is_ended_without_a_drain():
    pod = a_pod(a_spec(rollout={"drainTimeout": "1h"}))
    assert engine_of(pod)["startupProbe"]["terminationGracePeriodSeconds"] == 40
    assert pod["spec"]["terminationGracePeriodSeconds"] == 3640


def test_liveness_has_long_timeouts():
    probe = engine_of(a_pod(a_spec()))["livenessProbe"]
    assert probe["timeoutSeconds"] >= 10
    assert probe["failureThreshold"] >= 3


@pytest.mark.parametrize(
    ("engine", "expected"),
    [
        pytest.param({}, False, id="one GPU"),
        pytest.param({"tensorParallelSize": 2}, True, id="tensor parallel"),
        pytest.param({"dataParallelSize": 2}, True, id="data parallel"),
    ],
)
def test_shared_memory_is_backed_by_memory_when_gpus_talk(engine, expected):
    volumes = a_pod(a_spec(engine=engine))["spec"]["volumes"]
    assert ({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}} in volumes) is expected


class _Engine(HTTPServer):
    """Answers one completion, or refuses it."""

    status = 200

    def __init__(self) -> None:
        self.seen: list[tuple[str, str | None, bytes]] = []
        super().__init__(("127.0.0.1", 0), _Completions)


class _Completions(BaseHTTPRequestHandler):
    server: _Engine

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((self.path, self.headers.get("Authorization"), body))
        answer = b'{"choices": [{"text": " there"}]}' if self.server.status == 200 else b"{}"
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def engine():
    with _Engine() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def probe_once(port: int, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    python, flag, script, _, model = engine_of(a_pod(a_spec()))["startupProbe"]["exec"]["command"]
    assert python == "python3"
    return subprocess.run(
        [sys.executable, flag, script, str(port), model],
        capture_output=True,
        text=True,
        env={"http_proxy": "http://127.0.0.1:1", **(environment or {})},
    )


def test_the_startup_probe_asks_for_one_token_and_no_proxy_comes_between(engine):
    assert probe_once(engine.server_port).returncode == 0
    assert engine.seen == [
        ("/v1/completions", None, b'{"model": "team-a/chat", "prompt": "Hello", "max_tokens": 1}'),
    ]


def test_the_startup_probe_shows_the_engines_own_key(engine):
    assert probe_once(engine.server_port, {"VLLM_API_KEY": "s3cret"}).returncode == 0
    assert [authorization for _, authorization, _ in engine.seen] == ["Bearer s3cret"]


def test_the_startup_probe_fails_with_a_reason_while_the_engine_refuses(engine):
    engine.status = 503
    answer = probe_once(engine.server_port)
    assert (answer.returncode, answer.stderr) == (1, "no completion yet: HTTP Error 503: Service Unavailable\n")


def test_the_startup_probe_fails_with_a_reason_while_the_port_is_bound_and_nothing_listens():
    with socket.socket() as loading:
        loading.bind(("127.0.0.1", 0))
        answer = probe_once(loading.getsockname()[1])
    assert answer.returncode == 1
    assert "Connection refused" in answer.stderr
