"""`spec.schedules`."""

from typing import Any

from e2e.apiserver.crd_cases.case import SOURCE, Case

_NO_CRON = "is not a cron line; write minute, hour, day of month, month and day of week, such as 0 8 * * MON-FRI"
_NO_TIME = "is not a local time; write date and time to the minute without an offset, such as 2026-11-27T18:00"
_NO_DATE = "is not a date; write year, month and day, such as 2026-12-25"
_NO_ZONE = "is not the name of a time zone; use one of the IANA database, such as Europe/Berlin"
_TWO_WAYS = "a schedule needs exactly one of start and at"
_ONE_UNIT = "a floor needs exactly one unit; set one of replicas, requestsPerSecond and tokensPerMinute"


def schedules(**fields: Any) -> list[dict[str, Any]]:
    """One valid schedule with these `fields` changed; None removes a field."""
    schedule = {"name": "morning", "start": "0 8 * * *", "duration": "4h", "floor": {"replicas": 1}} | fields
    return [{name: value for name, value in schedule.items() if value is not None}]


def _case(what: str, field: str, wrong: Any, right: Any, says: str, offline: str | None = None, at: str = "") -> Case:
    """A field of the schedule; the refusal names it, or `at`."""
    return Case(
        what,
        "spec.schedules",
        schedules(**{field: wrong}),
        schedules(**{field: right}),
        says,
        offline,
        at=f"spec.schedules[0]{at or '.' + field}",
    )


def _floor(what: str, wrong: dict[str, Any], right: dict[str, Any], says: str, offline: str, unit: str = "") -> Case:
    return _case(what, "floor", wrong, right, says, offline, at=f".floor{unit}")


SCHEDULES = (
    _case("cron of four fields", "start", "0 8 * *", "0 8 * * *", _NO_CRON),
    _case("cron with an hour of 25", "start", "0 25 * * *", "0 23 * * *", _NO_CRON),
    _case("cron by a name", "start", "@daily", "0 0 * * *", _NO_CRON),
    _case("cron in German", "start", "0 8 * * MO-FR", "0 8 * * MON-FRI", _NO_CRON),
    Case(
        "neither start nor at",
        "spec.schedules",
        schedules(start=None),
        schedules(start=None, at=["2026-11-27T18:00"]),
        _TWO_WAYS,
        at="spec.schedules[0]",
    ),
    Case(
        "both start and at",
        "spec.schedules",
        schedules(at=["2026-11-27T18:00"]),
        schedules(),
        _TWO_WAYS,
        at="spec.schedules[0]",
    ),
    Case(
        "single time with an offset",
        "spec.schedules",
        schedules(start=None, at=["2026-11-27T18:00+01:00"]),
        schedules(start=None, at=["2026-11-27T18:00"]),
        "may not be more than 16",
        "22 characters are too many; use at most 16",
        at="spec.schedules[0].at[0]",
    ),
    Case(
        "single time on a date that does not exist",
        "spec.schedules",
        schedules(start=None, at=["2026-02-29T18:00"]),
        schedules(start=None, at=["2028-02-29T18:00"]),
        _NO_TIME,
        at="spec.schedules[0].at[0]",
    ),
    _case("zone by its offset", "timeZone", "+01:00", "Europe/Berlin", _NO_ZONE),
    _case("zone with a path", "timeZone", "../etc/localtime", "Etc/UTC", _NO_ZONE),
    _case("schedule without a duration", "duration", "0s", "1m", '"0s" is not a duration from 1m to 744h'),
    _case("duration of two months", "duration", "1488h", "744h", '"1488h" is not a duration from 1m to 744h'),
    Case(
        "exception on a date that does not exist",
        "spec.schedules",
        schedules(exceptDates=["2026-04-31"]),
        schedules(exceptDates=["2026-04-30"]),
        _NO_DATE,
        at="spec.schedules[0].exceptDates[0]",
    ),
    _floor("floor in two units", {"replicas": 1, "tokensPerMinute": 9}, {"tokensPerMinute": 9}, _ONE_UNIT, _ONE_UNIT),
    _floor("floor without a unit", {}, {"requestsPerSecond": 0.5}, _ONE_UNIT, _ONE_UNIT),
    _floor(
        "floor of 0 replicas",
        {"replicas": 0},
        {"replicas": 1},
        "should be greater than or equal to 1",
        "0 is too small; use 1 or more",
        ".replicas",
    ),
    _floor(
        "floor of 0 requests per second",
        {"requestsPerSecond": 0},
        {"requestsPerSecond": 0.001},
        "a rate below 0.001 is too small; use 0.001 or more",
        "a rate below 0.001 is too small; use 0.001 or more",
        ".requestsPerSecond",
    ),
    _floor(
        "floor of 0 tokens per minute",
        {"tokensPerMinute": 0},
        {"tokensPerMinute": 1},
        "should be greater than or equal to 1",
        "0 is too small; use 1 or more",
        ".tokensPerMinute",
    ),
    Case(
        "floor above the maximum",
        "spec",
        {"model": {"source": SOURCE}, "scaling": {"maxReplicas": 4}, "schedules": schedules(floor={"replicas": 5})},
        {"model": {"source": SOURCE}, "scaling": {"maxReplicas": 5}, "schedules": schedules(floor={"replicas": 5})},
        "a schedule's floor.replicas is above scaling.maxReplicas 4; raise maxReplicas or lower the floor",
        at="spec.schedules",
    ),
    Case(
        "two schedules with one name",
        "spec.schedules",
        schedules() * 2,
        [*schedules(), *schedules(name="evening", start="0 18 * * *")],
        "Duplicate value",
        '"morning" appears twice; keep one',
    ),
    Case(
        "seventeen schedules",
        "spec.schedules",
        [schedule for index in range(17) for schedule in schedules(name=f"s{index}")],
        [schedule for index in range(16) for schedule in schedules(name=f"s{index}")],
        "must have at most 16 items",
        "17 entries are too many; use at most 16",
    ),
)
