"""The views of InferenceServices that the planner reads."""

import pytest

from forebay.cluster.read import service_views
from forebay.cluster.read.projections import InferenceServiceObject
from forebay.cluster.read.service_views import ServiceViews
from forebay.workloads.spec.planned_sizes import sizing_of


def a_service(name: str) -> InferenceServiceObject:
    return InferenceServiceObject.model_validate(
        {
            "metadata": {
                "name": name,
                "namespace": "team",
                "uid": f"uid-{name}",
                "generation": 1,
                "resourceVersion": "1",
                "creationTimestamp": "2026-01-01T12:00:00Z",
            },
            "spec": {"model": {"source": f"hf://org/{name}"}, "gpu": {"product": "NVIDIA-L4"}},
        }
    )


def test_an_error_in_resolving_a_spec_is_a_problem_of_its_own_service(monkeypatch: pytest.MonkeyPatch):
    def fails_for_one(spec, *others):
        if spec.model.source == "hf://org/broken":
            raise ZeroDivisionError("division by zero")
        return sizing_of(spec, *others)

    monkeypatch.setattr(service_views, "sizing_of", fails_for_one)
    views = ServiceViews()
    broken, healthy = views.view(a_service("broken")), views.view(a_service("healthy"))
    assert [problem.reason for problem in broken.problems] == ["PlanningFailed"]
    assert "ZeroDivisionError: division by zero" in broken.problems[0].message
    assert healthy.problems == ()
    assert healthy.wanted is not None
