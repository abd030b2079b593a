"""Changes to YAML, including Helm templates."""

from pathlib import Path

import pytest

from prove.documents import Item, in_yaml
from prove.fault import MisfitError

ROLES = """\
{{- if .Values.rbac }}
kind: {{ $scope }}Role
metadata:
  name: {{ $name }}
rules:
  # What runs.
  - resources: [pods]
    verbs: [get, list]
  {{- if .Values.finalizers }}
  - resources: [pods/finalizers]
    verbs: [update]
  {{- end }}
---
kind: Role
rules:
  - resources: [leases]
    resourceNames: [{{ $name }}]
    verbs: [get]
{{- end }}
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "chart").mkdir()
    (tmp_path / "chart" / "roles.yaml").write_text(ROLES)
    return tmp_path


def test_a_value_is_replaced_and_the_rest_stays_as_it_is(root: Path):
    change = in_yaml("chart", "Role", "rules", Item("list"), "verbs", new="[get]")
    assert change.rewritten(root) == (root / "chart" / "roles.yaml", ROLES.replace("[get, list]", "[get]"))


@pytest.mark.parametrize(
    ("kind", "item", "times"),
    [
        pytest.param("Role", Item("secrets"), 0, id="no such item"),
        pytest.param("ClusterRole", Item("leases"), 0, id="no such kind"),
        pytest.param("Role", Item("get"), 2, id="in two documents"),
    ],
)
def test_a_missing_or_repeated_place_is_refused(kind: str, item: Item, times: int, root: Path):
    with pytest.raises(MisfitError, match=f"{kind} in chart has .* {times} times instead of once"):
        in_yaml("chart", kind, "rules", item, "verbs", new="[]").rewritten(root)
