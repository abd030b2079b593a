"""Names of objects, and unknown fields."""

from e2e.apiserver.crd_cases.case import SOURCE, Case

IDENTITY = (
    Case(
        "name with an upper-case letter or a leading digit",
        "metadata.name",
        "7b-chat",
        "chat-7b",
        'metadata.name "7b-chat" does not fit into names of pods and Services; use at most 40 lower case letters',
    ),
    Case("name of 41 characters", "metadata.name", "a" * 41, "a" * 40, "use at most 40 lower case letters, digits"),
    Case("name with a dot, which Services refuse", "metadata.name", "chat.v2", "chat-v2", "does not fit into names"),
    Case(
        "no model",
        "spec",
        {},
        {"model": {"source": SOURCE}},
        "spec.model: Required value",
        "is required",
        at="spec.model",
    ),
    Case(
        "misspelt field",
        "spec.scaling",
        {"maxReplica": 3},
        {"maxReplicas": 3},
        'unknown field "spec.scaling.maxReplica"',
        "unknown field; did you mean maxReplicas?",
        at="spec.scaling.maxReplica",
    ),
    Case(
        "replica number as in a Deployment",
        "spec",
        {"model": {"source": SOURCE}, "replicas": 3},
        {"model": {"source": SOURCE}, "scaling": {"maxReplicas": 3}},
        'unknown field "spec.replicas"',
        "unknown field; use model, engine",
        at="spec.replicas",
    ),
    Case(
        "GPUs asked for beside the parallel sizes",
        "spec.pod.resources",
        {"nvidia.com/gpu": "2"},
        {"cpu": "8"},
        'unknown field "spec.pod.resources.nvidia.com/gpu"',
        "unknown field; use cpu, memory.",
        at="spec.pod.resources.nvidia.com/gpu",
    ),
)
