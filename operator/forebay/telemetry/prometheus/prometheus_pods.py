"""One pod through Prometheus' eyes: from what `up` says of its targets and the new readings to its state. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forebay.scaling.load.signals import EngineSample
from forebay.telemetry.direct.fetch import FetchFailure
from forebay.telemetry.direct.url_template import ScrapeTarget
from forebay.telemetry.engine_sample import SignalMissing, sample_from
from forebay.telemetry.metric_catalogue import catalogue_for
from forebay.telemetry.prometheus.range_vectors import Job, Readings, Scrape, Target


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """Why a pod's newest state is not known; the last good sample stays and ages."""

    failure: FetchFailure
    message: str


@dataclass(frozen=True, slots=True)
class PodRecord:
    """What is remembered of a pod between rounds."""

    sample: EngineSample | None = None
    read: Mapping[Job, float] = field(default_factory=dict)
    """The newest scrape of each target that was looked at, by Prometheus' time stamp."""
    engine: Job | None = None
    """The target that had an engine's metrics when they were last seen."""
    trouble: ReadFailure | None = None
    """What was wrong with the newest readings."""


def unread_scrapes(pod: ScrapeTarget, targets: Sequence[Target], known: PodRecord) -> Iterator[Scrape]:
    """Any time stamp but the known one is new: Prometheus' clock may have been put back."""
    for target in targets:
        if target.good_at is not None and known.read.get(target.job) != target.good_at:
            yield (pod.namespace, pod.pod), target.job, target.good_at


def read_pod(
    known: PodRecord, pod: ScrapeTarget, targets: Sequence[Target], readings: Readings, lag_seconds: float
) -> PodRecord:
    """What is known after the new scrapes; `lag_seconds` is our clock minus Prometheus'.

    A scrape from before the pod was created is of an earlier pod of that name, and says nothing about this one.
    """
    own = [s for s in unread_scrapes(pod, targets, known) if s[2] + lag_seconds >= pod.created_at]
    found = [scrape for scrape in own if scrape in readings.by_scrape]
    known = replace(known, read={target.job: target.good_at for target in targets if target.good_at is not None})
    if not found:
        jobs = {target.job for target in targets}
        if own and known.engine not in jobs:
            return replace(known, trouble=_not_an_engine([job for _, job, _ in own]))
        return known
    scrape = max(found, key=lambda one: one[2])
    _, job, at = scrape
    known = replace(known, engine=job, trouble=None)
    try:
        sample = sample_from(readings.by_scrape[scrape], catalogue_for(pod.engine_version), at + lag_seconds)
    except SignalMissing as error:
        return replace(
            known, trouble=ReadFailure(FetchFailure.SIGNAL_MISSING, f"Prometheus, target {_job_name(job)}: {error}")
        )
    return replace(known, sample=sample)


def read_failure(known: PodRecord, targets: Sequence[Target], up_seconds: int) -> ReadFailure | None:
    """Why the pod's newest state is not known; None when it is."""
    if not targets:
        return ReadFailure(FetchFailure.CONNECTION, f"Prometheus has not tried to scrape it in the last {up_seconds} s")
    asked = [target for target in targets if target.job == known.engine] or targets
    if not any(target.is_up for target in asked):
        return ReadFailure(
            FetchFailure.CONNECTION, f"Prometheus could not scrape it: target {_job_name(asked[0].job)} is down"
        )
    if known.trouble is None and known.sample is None:
        return ReadFailure(FetchFailure.CONNECTION, "Prometheus has not scraped it since it was created")
    return known.trouble


def _not_an_engine(jobs: Sequence[Job]) -> ReadFailure:
    return ReadFailure(
        FetchFailure.NOT_AN_ENGINE,
        f"Prometheus scrapes it, and {' and '.join(_job_name(job) for job in jobs)} has no series of vLLM",
    )


def _job_name(job: Job) -> str:
    return "/".join(part for part in job if part) or "without a name"
