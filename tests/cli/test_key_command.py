"""`forebay key create` prints a key once, and an entry with its hash that a TenantQuota takes as it is."""

import hashlib
import json
import re

import pytest
import yaml
from typer.testing import CliRunner, Result

from e2e.apiserver.crd_cases import a_quota
from forebay.api.schema.manifest import read_tenant_quota
from forebay.api.tenant_quota import TenantClass
from forebay.cli.key_command import KEY_BYTES, KeyClass, new_key
from forebay.cli.main import app


def create(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["key", "create", *arguments])


def test_the_entry_has_the_hash_of_the_key_and_not_the_key():
    printed = create("--name", "ci", "--class", "Batch", "--expires-at", "2027-01-31T18:00:00Z").output
    (secret,) = [line for line in printed.splitlines() if line.startswith("fbk_")]
    entries = printed.split("in Git:\n", 1)[1]
    assert secret not in entries
    (entry,) = yaml.safe_load(entries)
    assert entry == {
        "name": "ci",
        "sha256": hashlib.sha256(secret.encode()).hexdigest(),
        "class": "Batch",
        "expiresAt": "2027-01-31T18:00:00Z",
    }
    assert read_tenant_quota(a_quota() | {"spec": {"apiKeys": [entry]}})


def test_a_name_that_yaml_takes_for_something_else_stays_text():
    entries = create("--name", "on").output.split("in Git:\n", 1)[1]
    assert yaml.safe_load(entries)[0]["name"] == "on"


def test_json_for_scripts():
    found = json.loads(create("-o", "json").output)
    assert found["entry"] == {"name": "default", "sha256": hashlib.sha256(found["key"].encode()).hexdigest()}


def test_keys_are_random_and_long():
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert KEY_BYTES * 8 >= 128
    assert all(re.fullmatch(r"fbk_[A-Za-z0-9_-]{32}", one) for one in keys)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--name", "Team CI"), "is not the name of a key"),
        (("--expires-at", "tomorrow"), "is not a time"),
        (("--class", "batch"), "batch"),
    ],
)
def test_what_the_api_server_would_refuse_is_refused_and_no_key_is_shown(arguments, says):
    refused = create(*arguments)
    assert refused.exit_code == 2
    assert says in " ".join(re.sub(r"[│╭╮╰╯─]", " ", refused.output).split())
    assert "fbk_" not in refused.output


def test_the_classes_are_those_of_the_api():
    assert [one.value for one in KeyClass] == [one.value for one in TenantClass]
