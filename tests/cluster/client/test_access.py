"""Which credentials are used, and the message when there are none."""

import json

import pytest

from forebay.cluster.client.access import Access, AccessError
from tests.cluster.api_server import write_kubeconfig


@pytest.mark.parametrize(
    ("access", "environment", "in_pod", "expected"),
    [
        pytest.param(Access("a"), {"KUBECONFIG": "b"}, True, "a", id="a flag wins"),
        pytest.param(Access(), {"KUBECONFIG": "b", "KUBERNETES_SERVICE_HOST": "x"}, True, "b", id="then KUBECONFIG"),
        pytest.param(Access(), {"KUBERNETES_SERVICE_HOST": "x"}, True, "", id="then the pod's service account"),
        pytest.param(Access(), {"KUBERNETES_SERVICE_HOST": "x"}, False, "~", id="a pod without a token is none"),
        pytest.param(
            Access(context="c"), {"KUBERNETES_SERVICE_HOST": "x"}, True, "~", id="a context means a kubeconfig"
        ),
    ],
)
def test_the_source_of_credentials(tmp_path, monkeypatch, access, environment, in_pod, expected):
    monkeypatch.setenv("HOME", "/home/somebody")
    if in_pod:
        (tmp_path / "token").write_text("secret")
    home = "/home/somebody/.kube/config"
    assert access.source(environment, tmp_path) == (home if expected == "~" else expected)


async def test_a_kubeconfig_gives_address_and_namespace(tmp_path):
    access = Access(str(write_kubeconfig(tmp_path, "http://127.0.0.1:1/", "secret")))
    assert (await access.configuration()).host == "http://127.0.0.1:1"
    assert (await access.namespace()) == "team-a"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "There is no kubeconfig at", id="no file"),
        pytest.param("{}", "cannot be used: Invalid kube-config file", id="an empty one"),
        pytest.param("[1, 2", "cannot be used", id="no YAML"),
    ],
)
async def test_an_unusable_kubeconfig_is_named(tmp_path, content, message):
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    with pytest.raises(AccessError, match=message) as raised:
        await Access(str(path)).configuration()
    assert str(path) in str(raised.value)
    with pytest.raises(AccessError, match=message):
        await Access(str(path)).namespace()


async def test_a_context_that_does_not_exist_is_named(tmp_path):
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1/", "secret")
    with pytest.raises(AccessError, match="Expected object with name other in"):
        await Access(str(path), context="other").configuration()


async def test_a_kubeconfig_is_never_written(tmp_path):
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1/", "secret")
    before = path.read_bytes()
    await Access(str(path)).configuration()
    assert path.read_bytes() == before


async def test_an_exec_plugin_gives_the_token_and_a_new_one_when_asked_again(tmp_path):
    tokens = tmp_path / "token"
    tokens.write_text("first")
    credential = '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "sh",
            "args": ["-c", f"printf '{credential}' \"$(cat {tokens})\""],
            "interactiveMode": "Never",
        }
    }
    path = write_kubeconfig(tmp_path, "http://127.0.0.1:1/", "unused")
    config = json.loads(path.read_text())
    config["users"] = [{"name": "test", "user": user}]
    path.write_text(json.dumps(config))
    assert (await Access(str(path)).configuration()).api_key == {"BearerToken": "Bearer first"}
    tokens.write_text("second")
    assert (await Access(str(path)).configuration()).api_key == {"BearerToken": "Bearer second"}
