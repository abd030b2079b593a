"""A pytest plugin that writes down what every call of `plan()` came to: the calls to the API server, statuses, events.

It runs against older commits too, so it stands alone: it imports nothing of this checkout, and looks for what it needs
where those commits have it. Actions are carried out by the commit's own `Applier` against an API that only notes calls.
"""

from __future__ import annotations

import asyncio
import gzip
import importlib
import inspect
import json
import os
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import hypothesis.internal.conjecture.providers as providers
from hypothesis.internal.constants_ast import Constants

PLANNERS = ("forebay.planner.planner",)
APPLIERS = ("forebay.cluster.write.apply", "forebay.cluster.apply")
APIS = ("forebay.cluster.client.kube_api", "forebay.cluster.kube_api")


def first_of(names: tuple[str, ...]) -> Any:
    """The first of these modules that the commit has."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if not name.startswith(error.name or "?"):
                raise
    raise ModuleNotFoundError(f"none of {', '.join(names)}")


class NotedCalls:
    """An API server that says yes to everything and has nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self._error = first_of(APIS).ApiError

    def _note(self, verb: str, resource: Any, namespace: str | None, name: str, body: Any = None) -> bytes:
        self.calls.append((verb, f"{resource.path}/{namespace or ''}/{resource.plural}/{name}", body))
        return b'{"metadata": {"name": "x", "uid": "x", "resourceVersion": "1"}}'

    async def get(self, resource: Any, namespace: str | None, name: str) -> bytes:
        self._note("get", resource, namespace, name)
        raise self._error(404, "NotFound", name)

    async def create(self, resource: Any, namespace: str | None, body: Any) -> bytes:
        return self._note("create", resource, namespace, body["metadata"]["name"], body)

    async def apply(self, resource: Any, namespace: str | None, name: str, body: Any) -> bytes:
        return self._note("apply", resource, namespace, name, body)

    async def patch(
        self, resource: Any, namespace: str | None, name: str, body: Any, *, subresource: str = ""
    ) -> bytes:
        return self._note("patch", resource, namespace, f"{name}/{subresource}", body)

    async def delete(self, resource: Any, namespace: str | None, name: str, **how: Any) -> bytes:
        return self._note("delete", resource, namespace, name, how)


class Forgetful:
    """Stands in for the observer, which stores answers and refusals."""

    def __init__(self) -> None:
        self.feedback = self.refusals = self

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments, **named: None


class Recorder:
    """Writes a line for every call of `plan()`, named after the test that made it."""

    def __init__(self, path: Path) -> None:
        self._file = gzip.open(path, "wt", encoding="utf-8", compresslevel=3)  # noqa: SIM115 - open for as long as tests run
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._told: dict[str, str] = {}
        self.test = ""
        planner = first_of(PLANNERS)
        original = planner.plan

        def plan(world: Any, state: Any, now: float) -> Any:
            done, after = original(world, state, now)
            self._write(done, world, now)
            return done, after

        planner.plan = plan

    def starts(self, test: str) -> None:
        self.test = test
        self._told = {}

    def close(self) -> None:
        self._file.close()

    def _write(self, done: Any, world: Any, now: float) -> None:
        line = {
            "test": self.test,
            "now": now,
            "held": done.held,
            "wake": done.wake_in_seconds,
            "calls": self._calls(done, world, now),
            "services": [self._service(share) for share in done.services],
            "pools": [self._changed(str(pool.key), pool.status) for pool in done.warm_pools],
        }
        self._file.write(json.dumps(line, sort_keys=True, default=str) + "\n")

    def _service(self, share: Any) -> Any:
        events = [list(asdict(event).values()) for event in share.events]
        return [str(share.key), self._changed(str(share.key), share.status), events, share.error is not None]

    def _changed(self, key: str, status: Any) -> Any:
        """The status where it is not what it was: most ticks change nothing, and files stay small."""
        text = status.model_dump_json(by_alias=True)
        if self._told.get(key) == text:
            return "same"
        self._told[key] = text
        return json.loads(text)

    def _calls(self, done: Any, world: Any, now: float) -> list[Any]:
        if not any(share.actions for share in (*done.services, *done.warm_pools)):
            return []
        api = NotedCalls()
        applier = first_of(APPLIERS).Applier(api, Forgetful(), is_leader=lambda: True, at_once=1)
        takes_world = "world" in inspect.signature(applier.apply).parameters
        arguments = (done, world, now) if takes_world else (done, now)
        asyncio.run_coroutine_threadsafe(applier.apply(*arguments), self._loop).result()
        return [list(call) for call in api.calls]


_recorder: Recorder | None = None


def pytest_configure(config: Any) -> None:
    global _recorder
    # Hypothesis also draws constants that it finds in the checkout's own sources. Two commits would then draw different
    # worlds from the same seed.
    assert hasattr(providers, "_get_local_constants"), "hypothesis has moved what draws constants from sources"
    providers._get_local_constants = Constants
    _recorder = Recorder(Path(os.environ["FOREBAY_DECISIONS"]))


def pytest_runtest_setup(item: Any) -> None:
    if _recorder is not None:
        _recorder.starts(item.name)


def pytest_unconfigure(config: Any) -> None:
    if _recorder is not None:
        _recorder.close()
