"""Why a scrape gave no sample: in words for people, and as a reason for the failure counter."""

from enum import StrEnum


class ScrapeFailure(StrEnum):
    """The label values of the failure counter. The set is closed, so that the number of series is bounded."""

    ADDRESS = "address"
    CONNECTION = "connection"
    TIMEOUT = "timeout"
    STATUS = "status"
    TOO_LARGE = "too_large"
    CUT = "cut"
    MALFORMED = "malformed"
    NOT_AN_ENGINE = "not_an_engine"
    SIGNAL_MISSING = "signal_missing"
    INTERNAL = "internal"


class ScrapeFailed(Exception):  # noqa: N818 - reads as a sentence where it is raised and caught
    """A scrape or a query gave nothing."""

    def __init__(self, failure: ScrapeFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure
