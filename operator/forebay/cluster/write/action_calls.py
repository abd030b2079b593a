"""Actions: how each action of a plan becomes calls, with the preconditions that make a stale decision harmless.

Objects whose controller is not the service, by uid, are never changed. Pods are patched and deleted only in the version
that the planner saw.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol, assert_never

from forebay.api.reasons import Reason
from forebay.cluster.client.kube_api import (
    CONFLICT,
    CONTROLLER_REVISIONS,
    DISRUPTION_BUDGETS,
    FORBIDDEN,
    NOT_FOUND,
    PODS,
    SERVICES,
    ApiError,
    Resource,
)
from forebay.cluster.read.projections import ChildObject, KubernetesObject, Reader
from forebay.cluster.read.refusals import Refusals
from forebay.cluster.read.views import child_view
from forebay.cluster.write.write_gate import Gate
from forebay.workloads.objects.disruption_budget import DISRUPTION_BUDGET
from forebay.workloads.objects.ownership import Owner
from forebay.workloads.objects.service import SERVICE
from forebay.world.plan import (
    Action,
    AdoptPod,
    ApplyChildren,
    CancelDrain,
    CreatePlaceholder,
    CreatePod,
    DeletePlaceholder,
    DeletePod,
    DeleteRevision,
    LiftGate,
    StartDrain,
    StoreRevision,
)
from forebay.world.world import Refusal

TERMINATING: Final = "Terminating"
UNPROCESSABLE: Final = 422
CHILD_RESOURCES: Final = {SERVICE: SERVICES, DISRUPTION_BUDGET: DISRUPTION_BUDGETS}


class AnswerStore(Protocol):
    """Stores the answers to writes for the next plan; the observer implements it."""

    refusals: Refusals

    def store_answer(self, resource: Resource, body: bytes) -> None: ...

    def store_deletion(self, resource: Resource, uid: str, body: bytes) -> None: ...


class Actor:
    """Carries out actions of one tick; `now` is the time the plan was made at, in unix seconds."""

    def __init__(self, gate: Gate, store: AnswerStore, now: float) -> None:
        self._gate = gate
        self._store = store
        self._now = now
        self._reader = Reader(KubernetesObject)
        self._children = Reader(ChildObject)

    async def carry_out(self, owner: Owner, action: Action) -> None:
        """Raises ApiError when a call fails, and LeadershipLostError."""
        match action:
            case StoreRevision():
                await self._store_revision(owner, action)
            case ApplyChildren():
                await self._apply_children(owner, action)
            case CreatePod() | CreatePlaceholder():
                await self._create(owner, action)
            case AdoptPod() | StartDrain() | CancelDrain() | LiftGate():
                await self._change_pod(owner, action)
            case DeletePod() | DeletePlaceholder():
                await self._delete_pod(owner, action)
            case DeleteRevision():
                await self._delete_revision(owner, action)
            case _:
                assert_never(action)

    async def _store_revision(self, owner: Owner, action: StoreRevision) -> None:
        namespace, revision = owner.key.namespace, action.revision
        body, name = action.body, action.body["metadata"]["name"]
        if not revision.name:
            try:
                answer = await self._gate.create(CONTROLLER_REVISIONS, namespace, body)
                self._store.store_answer(CONTROLLER_REVISIONS, answer)
                return
            except ApiError as error:
                if error.status != CONFLICT:
                    raise
                await self._must_be_ours(CONTROLLER_REVISIONS, owner, name)
        change = {"metadata": {"annotations": body["metadata"]["annotations"]}, "revision": body["revision"]}
        answer = await self._gate.patch(CONTROLLER_REVISIONS, namespace, revision.name or name, change)
        self._store.store_answer(CONTROLLER_REVISIONS, answer)

    async def _apply_children(self, owner: Owner, action: ApplyChildren) -> None:
        for body in action.bodies:
            await self._apply_child(owner, body)

    async def _apply_child(self, owner: Owner, body: Mapping[str, Any]) -> None:
        """Server-side apply, except to an object of another owner, which a forced apply would take over."""
        kind, name = body["kind"], body["metadata"]["name"]
        resource, namespace = CHILD_RESOURCES[kind], owner.key.namespace
        try:
            live = self._children.one(await self._gate.get(resource, namespace, name))
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            self._store.store_answer(resource, await self._gate.create(resource, namespace, body))
            return
        if live.metadata.controller_uid != owner.uid:
            self._store.refusals.add_foreign(child_view(live, kind), self._now)
            raise _taken(resource, name)
        if live.metadata.deletion_timestamp is not None:
            raise _terminating(resource, name)
        guarded = {**body, "metadata": {**body["metadata"], "resourceVersion": live.metadata.resource_version}}
        self._store.store_answer(resource, await self._gate.apply(resource, namespace, name, guarded))

    async def _create(self, owner: Owner, action: CreatePod | CreatePlaceholder) -> None:
        try:
            answer = await self._gate.create(PODS, owner.key.namespace, action.body)
        except ApiError as error:
            if error.reason == "AlreadyExists":
                answer = await self._own_pod(owner, action)
            else:
                self._note_refusal(owner, action, error)
                raise
        self._store.store_answer(PODS, answer)
        placeholder = isinstance(action, CreatePlaceholder)
        self._store.refusals.pod_created(owner.uid, action.name, self._now, placeholder=placeholder)

    async def _own_pod(self, owner: Owner, action: CreatePod | CreatePlaceholder) -> bytes:
        """The existing pod of that name, if an earlier call of ours created it and the answer was lost."""
        try:
            return await self._must_be_ours(PODS, owner, action.name)
        except ApiError as error:
            if error.reason == Reason.NAME_TAKEN:
                self._note(owner, action, Reason.NAME_TAKEN, error.message)
            raise

    async def _must_be_ours(self, resource: Resource, owner: Owner, name: str) -> bytes:
        """The object, if it is ours by controller uid and not being deleted; otherwise raises ApiError."""
        body = await self._gate.get(resource, owner.key.namespace, name)
        metadata = self._reader.one(body).metadata
        if metadata.controller_uid != owner.uid:
            raise _taken(resource, name)
        if metadata.deletion_timestamp is not None:
            raise _terminating(resource, name)
        return body

    def _note_refusal(self, owner: Owner, action: CreatePod | CreatePlaceholder, error: ApiError) -> None:
        """Remember a refusal of the request itself; lost answers and conflicts say nothing about the request."""
        if error.status == FORBIDDEN and "exceeded quota" in error.message:
            self._note(owner, action, Reason.QUOTA_EXCEEDED, error.message)
        elif error.status in (400, FORBIDDEN, UNPROCESSABLE):
            self._note(owner, action, "Refused", error.message)

    def _note(self, owner: Owner, action: CreatePod | CreatePlaceholder, reason: str, message: str) -> None:
        placeholder = isinstance(action, CreatePlaceholder)
        self._store.refusals.add(Refusal(owner.uid, action.name, reason, message, self._now, placeholder))

    async def _change_pod(self, owner: Owner, action: AdoptPod | StartDrain | CancelDrain | LiftGate) -> None:
        # A resourceVersion belongs to one object only, so the uid need not be checked as well.
        metadata = {**action.patch["metadata"], "resourceVersion": action.resource_version}
        answer = await self._gate.patch(PODS, owner.key.namespace, action.name, {**action.patch, "metadata": metadata})
        self._store.store_answer(PODS, answer)

    async def _delete_pod(self, owner: Owner, action: DeletePod | DeletePlaceholder) -> None:
        try:
            answer = await self._gate.delete(
                PODS,
                owner.key.namespace,
                action.name,
                uid=action.uid,
                resource_version=action.resource_version,
                grace_seconds=action.grace_seconds if isinstance(action, DeletePod) else None,
            )
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            answer = b""
        self._store.store_deletion(PODS, action.uid, answer)

    async def _delete_revision(self, owner: Owner, action: DeleteRevision) -> None:
        namespace = owner.key.namespace
        try:
            metadata = self._reader.one(await self._gate.get(CONTROLLER_REVISIONS, namespace, action.name)).metadata
            if metadata.controller_uid != owner.uid:
                raise _taken(CONTROLLER_REVISIONS, action.name)
            answer = await self._gate.delete(CONTROLLER_REVISIONS, namespace, action.name, uid=metadata.uid)
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return
        self._store.store_deletion(CONTROLLER_REVISIONS, metadata.uid, answer)


def _taken(resource: Resource, name: str) -> ApiError:
    return ApiError(
        CONFLICT, Reason.NAME_TAKEN, f'{resource.kind} "{name}" belongs to another owner; Forebay does not change it'
    )


def _terminating(resource: Resource, name: str) -> ApiError:
    return ApiError(CONFLICT, TERMINATING, f'{resource.kind} "{name}" is still being deleted')
