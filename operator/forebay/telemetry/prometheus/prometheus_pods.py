"""What Prometheus knows of one pod: the last good sample, or why there is no newer one. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forebay.scaling.load.signals import EngineSample
from forebay.telemetry.engine_sample import SignalMissing, sample_from
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.telemetry.prometheus.range_vectors import Job, Readings, Scrape, Target
from forebay.telemetry.scrape_failure import ScrapeFailure
from forebay.telemetry.signal_source import ScrapeTarget


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """Why a pod's current state is unknown; its last good sample stays and ages."""

    failure: ScrapeFailure
    message: str


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What the source keeps of a pod between rounds."""

    sample: EngineSample | None = None
    scraped_at: Mapping[Job, float] = field(default_factory=dict)
    """The time stamp of the newest scrape that was read of each target, by Prometheus' clock."""
    engine: Job | None = None
    """The target that last had metrics of vLLM."""
    failure: ReadFailure | None = None
    """What was wrong with the newest readings."""


def unread_scrapes(pod: ScrapeTarget, targets: Sequence[Target], record: PodRecord) -> Iterator[Scrape]:
    """The successful scrapes of a pod that were not read yet.

    Any other time stamp than the last one is new, even an earlier one, since Prometheus' clock may have been set back.
    """
    for target in targets:
        if target.last_success_at is not None and record.scraped_at.get(target.job) != target.last_success_at:
            yield (pod.namespace, pod.pod), target.job, target.last_success_at


def read_pod(
    record: PodRecord, pod: ScrapeTarget, targets: Sequence[Target], readings: Readings, lag_seconds: float
) -> PodRecord:
    """The record after the new scrapes; `lag_seconds` is the operator's clock minus Prometheus' clock.

    Scrapes from before the pod was created belong to an earlier pod of the same name and are ignored.
    """
    scrapes = [s for s in unread_scrapes(pod, targets, record) if s[2] + lag_seconds >= pod.created_at]
    with_readings = [scrape for scrape in scrapes if scrape in readings.by_scrape]
    record = replace(
        record,
        scraped_at={target.job: target.last_success_at for target in targets if target.last_success_at is not None},
    )
    if not with_readings:
        jobs = {target.job for target in targets}
        if scrapes and record.engine not in jobs:
            return replace(record, failure=_not_an_engine([job for _, job, _ in scrapes]))
        return record
    newest = max(with_readings, key=lambda scrape: scrape[2])
    _, job, at = newest
    record = replace(record, engine=job, failure=None)
    try:
        sample = sample_from(readings.by_scrape[newest], catalogue_for(pod.engine_version), at + lag_seconds)
    except SignalMissing as error:
        return replace(
            record, failure=ReadFailure(ScrapeFailure.SIGNAL_MISSING, f"Prometheus, target {_job_name(job)}: {error}")
        )
    return replace(record, sample=sample)


def read_failure(record: PodRecord, targets: Sequence[Target], up_seconds: int) -> ReadFailure | None:
    """Why the pod's current state is unknown; None when it is known."""
    if not targets:
        return ReadFailure(
            ScrapeFailure.CONNECTION, f"Prometheus has not tried to scrape it in the last {up_seconds} s"
        )
    candidates = [target for target in targets if target.job == record.engine] or targets
    if not any(target.is_up for target in candidates):
        return ReadFailure(
            ScrapeFailure.CONNECTION, f"Prometheus could not scrape it: target {_job_name(candidates[0].job)} is down"
        )
    if record.failure is None and record.sample is None:
        return ReadFailure(ScrapeFailure.CONNECTION, "Prometheus has not scraped it since it was created")
    return record.failure


def _not_an_engine(jobs: Sequence[Job]) -> ReadFailure:
    return ReadFailure(
        ScrapeFailure.NOT_AN_ENGINE,
        f"Prometheus scrapes it, but {' and '.join(_job_name(job) for job in jobs)} has no vLLM series",
    )


def _job_name(job: Job) -> str:
    return "/".join(part for part in job if part) or "without a name"
