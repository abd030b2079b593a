"""The affinity of a Kubernetes pod, typed and bounded: an untyped field would make server-side diffs wrong."""

from typing import Annotated, Literal

from pydantic import Field

from forebay.api.schema.base_model import Model
from forebay.api.schema.bounded_types import Count, LabelKey, LabelValue, NodeLabels, ObjectName
from forebay.api.schema.validation_rules import Rule

Weight = Annotated[Count, Field(ge=1, le=100)]
Values = Annotated[tuple[LabelValue, ...], Field(max_length=16)]
Namespaces = Annotated[tuple[ObjectName, ...], Field(max_length=16)]


def _has_values(wanted: "NodeRequirement | LabelRequirement") -> bool:
    return (len(wanted.values) > 0) != (wanted.operator in ("Exists", "DoesNotExist"))


_VALUES = Rule["NodeRequirement | LabelRequirement"](
    cel="(has(self.values) && size(self.values) > 0) != (self.operator in ['Exists', 'DoesNotExist'])",
    message="operator $operator does not fit these values; Exists and DoesNotExist take none, all others need one",
    holds=_has_values,
    at="values",
)


class NodeRequirement(Model):
    """A label that a node must have or must not have."""

    rules = (
        _VALUES,
        Rule["NodeRequirement"](
            cel="!(self.operator in ['Gt', 'Lt'])"
            " || (has(self.values) && size(self.values) == 1 && self.values[0].matches('^[0-9]+$'))",
            message="operator $operator needs exactly one value, a whole number as text; write it as the only value",
            holds=lambda wanted: (
                wanted.operator not in ("Gt", "Lt")
                or (len(wanted.values) == 1 and wanted.values[0].isascii() and wanted.values[0].isdigit())
            ),
            at="values",
        ),
    )

    key: LabelKey
    """Label of the node."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How the label is compared with the values."""
    values: Values = ()
    """Values to compare the label with."""


class LabelRequirement(Model):
    """A label that a pod must have or must not have."""

    rules = (_VALUES,)

    key: LabelKey
    """Label of the pod."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with the values."""
    values: Values = ()
    """Values to compare the label with."""


class LabelSelector(Model):
    """Selects pods by their labels; all requirements must hold."""

    match_labels: NodeLabels | None = None
    """Labels that must have exactly these values."""
    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=16)] = ()
    """Requirements on labels."""


class NodeSelectorTerm(Model):
    """Selects nodes by their labels; all requirements must hold."""

    match_expressions: Annotated[tuple[NodeRequirement, ...], Field(min_length=1, max_length=16)]
    """Requirements on labels."""


class NodeSelectorTerms(Model):
    """Selects nodes that satisfy at least one of the terms."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1, max_length=8)]
    """Terms of which at least one must hold."""


class PreferredNodes(Model):
    """Nodes that are preferred to others."""

    weight: Weight
    """Weight of the preference, 1 to 100."""
    preference: NodeSelectorTerm
    """The preferred nodes."""


class NodeAffinity(Model):
    """Which nodes a pod may or should run on."""

    required_during_scheduling_ignored_during_execution: NodeSelectorTerms | None = None
    """Nodes that a pod must run on."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredNodes, ...], Field(max_length=8)
    ] = ()
    """Nodes that a pod should run on."""


class PodAffinityTerm(Model):
    """Other pods, and the topology domain that a pod shares with them or avoids."""

    label_selector: LabelSelector | None = None
    """Labels of the other pods."""
    namespaces: Namespaces = ()
    """Namespaces of the other pods; the service's own namespace when empty."""
    namespace_selector: LabelSelector | None = None
    """Namespaces of the other pods, by labels of the namespace."""
    topology_key: LabelKey
    """Node label that defines the domains, such as kubernetes.io/hostname: nodes with the same value are one domain."""


class PreferredPods(Model):
    """Other pods whose domain is preferred or avoided."""

    weight: Weight
    """Weight of the preference, 1 to 100."""
    pod_affinity_term: PodAffinityTerm
    """The other pods and their topology domain."""


class PodAffinity(Model):
    """Rules about the other pods near which, or away from which, a pod runs."""

    required_during_scheduling_ignored_during_execution: Annotated[
        tuple[PodAffinityTerm, ...], Field(max_length=8)
    ] = ()
    """Terms that must all hold."""
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredPods, ...], Field(max_length=8)] = ()
    """Terms that should hold; those of the highest weight count most."""


class Affinity(Model):
    """Where pods are scheduled, with the fields of a pod's own `affinity`."""

    node_affinity: NodeAffinity | None = None
    """Nodes that pods must or should run on."""
    pod_affinity: PodAffinity | None = None
    """Other pods near which pods must or should run."""
    pod_anti_affinity: PodAffinity | None = None
    """Other pods away from which pods must or should run."""
