"""`forebay plan` on manifests that hold a WarmPool beside the services."""

from typing import Any, ClassVar

import pytest
import yaml

from tests.capacity.specs import H100
from tests.cli.plan.plan_runs import CHAT, plan, planned


class TestWarmPools:
    POOL: ClassVar[dict[str, Any]] = {
        "apiVersion": "forebay.dev/v1alpha1",
        "kind": "WarmPool",
        "metadata": {"name": "spare"},
        "spec": {"gpu": {"product": H100}, "placeholders": 2},
    }

    @pytest.mark.parametrize("output", ["table", "json", "markdown"])
    def test_one_beside_a_service_is_left_out_and_said_so(self, output):
        alone = plan("-f", "-", "-o", output, text=yaml.safe_dump(CHAT))
        result = plan("-f", "-", "-o", output, text=yaml.safe_dump_all([CHAT, self.POOL]))
        assert (result.exit_code, result.stdout) == (0, alone.stdout)
        [sentence] = [line for line in result.stderr.splitlines() if "WarmPool" in line]
        assert "spare" in sentence

    def test_one_that_is_wrong_is_named(self):
        wrong = self.POOL | {"spec": self.POOL["spec"] | {"placeholders": -1}}
        [bad] = planned(CHAT, wrong, exit_code=2)["badInput"]
        assert (bad["document"], bad["field"]) == (2, "spec.placeholders")

    def test_without_a_service_there_is_nothing_to_plan(self):
        assert planned(self.POOL, exit_code=2)["services"] == []
