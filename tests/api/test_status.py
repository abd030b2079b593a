from forebay.api.inference_service import Condition, DecisionStatus, InferenceServiceStatus


def test_a_long_sentence_is_cut_rather_than_refused():
    decision = DecisionStatus(rule="queue_depth", because="a" * 5000, desired=3)
    assert (len(decision.because), decision.because[-2:]) == (2048, "a…")


def test_a_sentence_that_fits_is_kept():
    assert DecisionStatus(rule="queue_depth", because="a" * 2048, desired=3).because == "a" * 2048


def test_a_status_of_a_newer_operator_is_read():
    """After a downgrade the older operator goes on from what it understands."""
    status = InferenceServiceStatus.model_validate({"observedGeneration": 2, "learned": {"leadTime": 200}})
    assert status.observed_generation == 2


def test_a_status_is_written_in_the_words_of_the_wire():
    condition = Condition(
        type="Ready",
        status="True",
        reason="Serving",
        last_transition_time="2026-03-01T11:00:00Z",
        observed_generation=2,
    )
    assert InferenceServiceStatus(conditions=(condition,)).wire() == {
        "conditions": [
            {
                "type": "Ready",
                "status": "True",
                "reason": "Serving",
                "lastTransitionTime": "2026-03-01T11:00:00Z",
                "observedGeneration": 2,
            }
        ]
    }
