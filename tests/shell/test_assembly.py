from dataclasses import dataclass
from typing import Any

from forebay.cluster.observe import EngineAddress
from forebay.shell.assembly import Operator

ENGINE = EngineAddress("uid", "team", "chat-0", "10.0.0.1", 8000, "0.32.0")


@dataclass
class SomeLeader:
    leading: bool


class OneEngine:
    def engines(self) -> list[EngineAddress]:
        return [ENGINE]


def an_operator(leader: SomeLeader) -> Operator:
    nothing: Any = None
    observer: Any = OneEngine()
    held: Any = leader
    return Operator(observer, nothing, nothing, nothing, held, nothing)


def test_only_the_leader_asks_engines_for_metrics():
    leader = SomeLeader(leading=False)
    operator = an_operator(leader)
    assert operator.targets() == []
    leader.leading = True
    assert [target.pod for target in operator.targets()] == ["chat-0"]
