"""Which revision a service's pods should be of, and which ones may be forgotten.

What the user wrote decides (`spec_hash`), never what today's operator would make of it: a new operator, catalog or
default restarts no pod.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from forebay.world.plan import DeleteRevision, StoreRevision
from forebay.world.world import Revision

KEPT_UNUSED: Final = 10
"""Revisions without pods that are kept, to roll back to."""


@dataclass(frozen=True, slots=True)
class Choice:
    target: Revision
    store: StoreRevision | None = None
    """What has to be written first, if anything."""
    update_available: bool = False
    """Today's operator would build the pods differently."""


def choose(wanted: Revision, stored: Sequence[Revision]) -> Choice:
    """The revision to roll to; each variant has revisions of its own.

    - The newest stored one when it is what the user asks for, whatever it resolves to today.
    - An older stored one when the user has gone back to it: it is taken up again as it was, and becomes the newest.
    - One that resolves alike though it was written differently: no pod would change, so it only learns the new text.
    - Otherwise what the spec resolves to today.
    """
    ours = (revision for revision in stored if revision.variant == wanted.variant)
    by_age = sorted(ours, key=lambda revision: (revision.number, revision.hash))
    if not by_age:
        return _stored_anew(replace(wanted, number=1), wanted)
    newest = by_age[-1]
    if newest.spec_hash == wanted.spec_hash:
        return Choice(newest, update_available=newest.hash != wanted.hash)
    number = newest.number + 1
    for earlier in reversed(by_age):
        if earlier.spec_hash == wanted.spec_hash:
            return _stored_anew(replace(earlier, number=number), wanted)
    for blocked_for_all in reversed(by_age):
        if blocked_for_all.hash == wanted.hash:
            kept = number if blocked_for_all is not newest else newest.number
            return _stored_anew(replace(blocked_for_all, number=kept, spec_hash=wanted.spec_hash), wanted)
    return _stored_anew(replace(wanted, number=number), wanted)


def forgotten(stored: Sequence[Revision], used: Collection[str]) -> tuple[DeleteRevision, ...]:
    """Revisions that are neither targets nor have pods, beyond the newest ten of them. `used` are hashes of those."""
    unused = [revision for revision in stored if revision.hash not in used]
    newest_first = sorted(unused, key=lambda revision: (-revision.number, revision.hash))
    return tuple(DeleteRevision(revision.name) for revision in newest_first[KEPT_UNUSED:])


def _stored_anew(target: Revision, wanted: Revision) -> Choice:
    return Choice(target, StoreRevision(target), update_available=target.hash != wanted.hash)
