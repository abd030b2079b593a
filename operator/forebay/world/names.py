"""Names of pods: `<service>-<uid5>-<revision>-<ordinal>[-rank]`, and `<service>-<uid5>-placeholder-<number>`.

Names are deterministic, so that a creation that is sent twice conflicts with itself instead of making two pods. A name
is not reused while an object of that name exists, whether that object is terminating and whoever owns it.
"""

from collections.abc import Collection, Iterator
from itertools import count
from typing import Final

from forebay.world.world import Revision, ServiceKey

UID_CHARACTERS: Final = 5


def pod_names(key: ServiceKey, uid: str, revision: Revision, ordinal: int) -> tuple[str, ...]:
    """One name per rank. The name of a single-pod replica carries no rank."""
    base = f"{key.name}-{uid.replace('-', '')[:UID_CHARACTERS]}-{revision.hash}-{ordinal}"
    if revision.shape.pods == 1:
        return (base,)
    return tuple(f"{base}-{rank}" for rank in range(revision.shape.pods))


def placeholder_names(key: ServiceKey, uid: str, taken_names: Collection[str]) -> Iterator[str]:
    """Names that are free, lowest number first. A service name of 40 characters and a number of four digits give at
    most 63 characters."""
    base = f"{key.name}-{uid.replace('-', '')[:UID_CHARACTERS]}-placeholder"
    return (name for number in count() if (name := f"{base}-{number}") not in taken_names)


def free_ordinals(
    key: ServiceKey, uid: str, revision: Revision, taken_names: Collection[str], taken_ordinals: Collection[int]
) -> Iterator[int]:
    """Ordinals for which the names of all ranks are free, lowest first."""
    for ordinal in count():
        if ordinal not in taken_ordinals and not any(
            name in taken_names for name in pod_names(key, uid, revision, ordinal)
        ):
            yield ordinal
