"""A planted fault: pieces of the project's text replaced by others, so that one headline claim is no longer true."""

from dataclasses import dataclass

SUITE_ON_CONTROL_PLANE = "e2e/apiserver/"
SUITE_ON_NODES = "e2e/cluster/"


@dataclass(frozen=True, slots=True)
class Edit:
    path: str
    """Below the root of the project."""
    old: str
    """Must be there exactly once: a fault that no longer fits is an error, so that the list cannot rot."""
    new: str


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    """`area.what-is-broken`."""
    claim: str
    """What the guards say is true, and the fault makes false."""
    edits: tuple[Edit, ...]
    guards: tuple[str, ...]
    """pytest's ids of the tests that must turn red, each of them."""
    before: tuple[str, ...] = ()
    """What has to run before the guards, such as the module whose traces a guard reads; it need not turn red."""

    @property
    def tests(self) -> tuple[str, ...]:
        return (*self.before, *self.guards)

    @property
    def area(self) -> str:
        return self.name.partition(".")[0]

    @property
    def needs_nodes(self) -> bool:
        """And so root."""
        return any(guard.startswith(SUITE_ON_NODES) for guard in self.guards)

    @property
    def needs_control_plane(self) -> bool:
        return any(guard.startswith(SUITE_ON_CONTROL_PLANE) for guard in self.guards)
