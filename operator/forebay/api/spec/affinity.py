"""Affinity as Kubernetes has it, typed and bounded: an untyped field would make server-side diffs lie."""

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
    message="operator $operator does not go with these values; Exists and DoesNotExist take none, all others need one",
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
            message="operator $operator compares with one whole number; write it as the only value, as text",
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
    """What it is compared with."""


class LabelRequirement(Model):
    """A label that a pod must have or must not have."""

    rules = (_VALUES,)

    key: LabelKey
    """Label of the pod."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How the label is compared with the values."""
    values: Values = ()
    """What it is compared with."""


class LabelSelector(Model):
    """Pods by their labels; all of it must hold."""

    match_labels: NodeLabels | None = None
    """Labels with exactly these values."""
    match_expressions: Annotated[tuple[LabelRequirement, ...], Field(max_length=16)] = ()
    """Requirements on labels."""


class NodeSelectorTerm(Model):
    """Nodes by their labels; all of it must hold."""

    match_expressions: Annotated[tuple[NodeRequirement, ...], Field(min_length=1, max_length=16)]
    """Requirements on labels."""


class NodeSelectorTerms(Model):
    """Nodes that satisfy any one of the terms."""

    node_selector_terms: Annotated[tuple[NodeSelectorTerm, ...], Field(min_length=1, max_length=8)]
    """One of them must hold."""


class PreferredNodes(Model):
    """Nodes that are better than others."""

    weight: Weight
    """How much better, 1 to 100."""
    preference: NodeSelectorTerm
    """Which nodes."""


class NodeAffinity(Model):
    """Which nodes a pod may or should run on."""

    required_during_scheduling_ignored_during_execution: NodeSelectorTerms | None = None
    """Nodes that a pod must run on."""
    preferred_during_scheduling_ignored_during_execution: Annotated[
        tuple[PreferredNodes, ...], Field(max_length=8)
    ] = ()
    """Nodes that a pod should run on."""


class PodAffinityTerm(Model):
    """Pods, and how near they are meant to be."""

    label_selector: LabelSelector | None = None
    """Which pods."""
    namespaces: Namespaces = ()
    """Where they are; the service's own namespace when empty."""
    namespace_selector: LabelSelector | None = None
    """Where they are, by labels of the namespace."""
    topology_key: LabelKey
    """Label of nodes whose equal values mean near, such as kubernetes.io/hostname."""


class PreferredPods(Model):
    """Pods that are better near, or better far."""

    weight: Weight
    """How much better, 1 to 100."""
    pod_affinity_term: PodAffinityTerm
    """Which pods, and how near."""


class PodAffinity(Model):
    """Near which pods, or far from which, a pod may or should run."""

    required_during_scheduling_ignored_during_execution: Annotated[
        tuple[PodAffinityTerm, ...], Field(max_length=8)
    ] = ()
    """All of them must hold."""
    preferred_during_scheduling_ignored_during_execution: Annotated[tuple[PreferredPods, ...], Field(max_length=8)] = ()
    """Those of the highest weight count most."""


class Affinity(Model):
    """Where pods are scheduled, in the words of a pod's own `affinity`."""

    node_affinity: NodeAffinity | None = None
    """Which nodes."""
    pod_affinity: PodAffinity | None = None
    """Near which pods."""
    pod_anti_affinity: PodAffinity | None = None
    """Far from which pods."""
