"""Names of pods: `<service>-<uid5>-<revision>-<ordinal>[-rank]`, and `<service>-<uid5>-placeholder-<number>`.

Deterministic, so that a creation that was sent twice meets itself. A name is not used again while its object exists,
ending or not, ours or not.
"""

from collections.abc import Collection, Iterator
from itertools import count
from typing import Final

from forebay.world.world import Revision, ServiceKey

UID_CHARACTERS: Final = 5


def pod_names(key: ServiceKey, uid: str, revision: Revision, ordinal: int) -> tuple[str, ...]:
    """One name per rank; a replica of one pod has none in its name."""
    base = f"{key.name}-{uid.replace('-', '')[:UID_CHARACTERS]}-{revision.hash}-{ordinal}"
    if revision.shape.pods == 1:
        return (base,)
    return tuple(f"{base}-{rank}" for rank in range(revision.shape.pods))


def placeholder_names(key: ServiceKey, uid: str, taken_names: Collection[str]) -> Iterator[str]:
    """Free ones, lowest number first; 63 characters at most for a key of 40 and four digits."""
    base = f"{key.name}-{uid.replace('-', '')[:UID_CHARACTERS]}-placeholder"
    return (name for number in count() if (name := f"{base}-{number}") not in taken_names)


def free_ordinals(
    key: ServiceKey, uid: str, revision: Revision, taken_names: Collection[str], taken_ordinals: Collection[int]
) -> Iterator[int]:
    """Ordinals whose names are all free, lowest first."""
    for ordinal in count():
        if ordinal not in taken_ordinals and not any(
            name in taken_names for name in pod_names(key, uid, revision, ordinal)
        ):
            yield ordinal
