from forebay.cluster.read.refusals import Refusals
from forebay.world.world import ChildView, Refusal
from tests.builders.world import NOW


def test_after_clear_no_refusal_is_left_whatever_its_time():
    refusals = Refusals()
    refusals.add(Refusal("uid-chat", "chat-0", "QuotaExceeded", "exceeded quota", NOW + 3600.0))
    refusals.add_foreign(ChildView("Service", "team", "chat", None, ""), NOW + 3600.0)
    assert refusals.of_pods(NOW)
    assert refusals.foreign_children(NOW)
    refusals.clear()
    assert refusals.of_pods(NOW) == ()
    assert refusals.foreign_children(NOW) == ()
