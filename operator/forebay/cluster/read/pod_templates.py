"""The PodTemplates that services name: each is read when it is first named, and then once a minute.

They are not watched, because few services name one and a change reaches pods only with the next rollout.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from forebay.api.reasons import Reason
from forebay.cluster.client.kube_api import NOT_FOUND, POD_TEMPLATES, ApiError, KubeApi
from forebay.cluster.read.projections import KubernetesObject, Reader
from forebay.world.world import SpecProblem

REFRESH_SECONDS = 60.0

TemplateKey = tuple[str, str]
"""Namespace and name."""


class PodTemplateObject(KubernetesObject):
    template: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """The PodTemplate of a service's `pod.templateRef`."""

    version: str = ""
    content: Mapping[str, Any] | None = None
    """None when the PodTemplate does not exist, or the service names none."""
    problem: SpecProblem | None = None
    """Why it is unknown whether the PodTemplate exists."""


NO_TEMPLATE = Template()


class PodTemplates:
    def __init__(self, api: KubeApi, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._api = api
        self._monotonic = monotonic
        self._reader = Reader(PodTemplateObject)
        self._known: dict[TemplateKey, tuple[float, Template]] = {}

    async def read(self, named: Iterable[TemplateKey]) -> Mapping[TemplateKey, Template]:
        """The templates of these keys, from memory for up to `REFRESH_SECONDS`; all others are forgotten."""
        keys = sorted(set(named))
        now = self._monotonic()
        self._known = {key: self._known[key] for key in keys if key in self._known}
        due = [key for key in keys if key not in self._known or now - self._known[key][0] >= REFRESH_SECONDS]
        for key, template in zip(due, await asyncio.gather(*map(self._get, due)), strict=True):
            self._known[key] = (now, template)
        return {key: template for key, (_, template) in self._known.items()}

    async def _get(self, key: TemplateKey) -> Template:
        namespace, name = key
        try:
            stored = self._reader.one(await self._api.get(POD_TEMPLATES, namespace, name))
        except ApiError as error:
            if error.status == NOT_FOUND:
                return NO_TEMPLATE
            return self._unreadable(key, str(error))
        except ValueError as error:
            return self._unreadable(key, str(error))
        return Template(stored.metadata.resource_version, stored.template or {})

    def _unreadable(self, key: TemplateKey, reason: str) -> Template:
        """The template that was read last; if there is none, a problem that makes the service wait."""
        if key in self._known:
            return self._known[key][1]
        return Template(
            problem=SpecProblem(
                Reason.POD_TEMPLATE_UNREADABLE,
                f'spec.pod.templateRef: the PodTemplate "{key[1]}" cannot be read ({reason}); Forebay tries again '
                f"every {REFRESH_SECONDS:g} s.",
            )
        )
