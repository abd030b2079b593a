import pytest
from pydantic import BaseModel, ValidationError

from forebay.api.duration import Duration


class Timed(BaseModel):
    wait: Duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("500ms", 0.5),
        ("90s", 90.0),
        ("5m", 300.0),
        ("1h30m", 5400.0),
        ("1s500ms", 1.5),
        ("0s", 0.0),
        ("30m1h", 5400.0),
    ],
)
def test_a_duration_is_seconds_and_the_text_it_was_written_as(text, seconds):
    assert (Duration(text).seconds, str(Duration(text))) == (seconds, text)


@pytest.mark.parametrize("text", ["", "90", "1.5s", "1d", "-5s", "5 s", "s", "90s\n", "1234567s", "1s" * 9, "٣s"])
def test_other_texts_are_refused_with_a_valid_example(text):
    with pytest.raises(ValueError, match="is not a duration; write whole numbers with units, such as 500ms, 90s"):
        Duration(text)


def test_a_number_is_refused_because_its_unit_is_a_guess():
    with pytest.raises(ValidationError, match="write a duration as text with a unit, such as 90s"):
        Timed.model_validate({"wait": 90})


def test_the_text_is_written_back_unchanged():
    assert Timed.model_validate_json('{"wait":"1h0m"}').model_dump_json() == '{"wait":"1h0m"}'


def test_equal_spans_with_different_texts_differ():
    """Durations keep and compare the text that the user wrote."""
    assert Duration("60s") != Duration("1m")
    assert len({Duration("60s"), Duration("60s"), Duration("1m")}) == 2
