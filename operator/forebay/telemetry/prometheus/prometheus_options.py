"""The options of the Prometheus connection and of the labels that name pods, checked once at the start."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from forebay.telemetry.prometheus.promql import equals, is_label_name
from forebay.telemetry.prometheus.range_vectors import PodLabels


@dataclass(frozen=True, slots=True)
class PrometheusOptions:
    """What the `--prometheus-*` flags give."""

    url: str = ""
    """The base URL, without `/api/v1`."""
    ca_file: Path | None = None
    """CA certificates to trust (PEM); None means those of the system."""
    token_file: Path | None = None
    """A file with a bearer token; it is read for every query."""
    namespace_label: str = PodLabels().namespace
    pod_label: str = PodLabels().pod
    selector: str | None = None
    """`label=value` that every series must have, for a Prometheus that holds more than one cluster."""

    @property
    def labels(self) -> PodLabels:
        return PodLabels(self.namespace_label, self.pod_label)

    @property
    def matchers(self) -> tuple[str, ...]:
        if self.selector is None:
            return ()
        label, _, value = self.selector.partition("=")
        return (equals(label, value),)

    def problem(self) -> str:
        """What is wrong: the flag, its value and what would work; empty when nothing is wrong."""
        return _problem_of_url(self) or _problem_of_files(self) or _problem_of_labels(self)


def _problem_of_url(options: PrometheusOptions) -> str:
    example = "give one like https://prometheus.monitoring:9090"
    if not options.url:
        return f"--prometheus-url is missing, but --metrics-source is prometheus; {example}."
    try:
        url = urlsplit(options.url)
        has_host = bool(url.hostname) and url.port != 0
    except ValueError as error:
        return f"--prometheus-url {options.url} is not a URL: {error}; {example}."
    if url.username is not None or url.password is not None:
        # The URL is not shown, because it may contain a password.
        return f"--prometheus-url must not contain a user or password; use --prometheus-token-file, and {example}."
    if url.scheme not in ("http", "https") or not has_host or any(character.isspace() for character in options.url):
        return f"--prometheus-url {options.url} does not name a host for http or https; {example}."
    if url.query or url.fragment:
        return f"--prometheus-url {options.url} must not contain a query or fragment; {example}."
    if url.scheme == "http" and options.token_file is not None:
        return f"--prometheus-url {options.url} would send the token of --prometheus-token-file unencrypted; use https."
    if url.scheme == "http" and options.ca_file is not None:
        return f"--prometheus-url {options.url} has no certificate to verify with --prometheus-ca-file; use https."
    return ""


def _problem_of_files(options: PrometheusOptions) -> str:
    for flag, file in (("--prometheus-ca-file", options.ca_file), ("--prometheus-token-file", options.token_file)):
        if file is not None and not file.is_file():
            return f"{flag} {file} is not a file; mount it, or remove the flag."
    return ""


def _problem_of_labels(options: PrometheusOptions) -> str:
    labels = [("--prometheus-namespace-label", options.namespace_label), ("--prometheus-pod-label", options.pod_label)]
    if options.selector is not None:
        label, equal, _ = options.selector.partition("=")
        if not equal:
            return f'--prometheus-selector "{options.selector}" has no "="; give one like cluster=eu-1.'
        labels.append(("--prometheus-selector", label))
    for flag, label in labels:
        if not is_label_name(label):
            return f'{flag}: "{label}" is not a label name; use letters, digits and _, and do not start with a digit.'
    if options.namespace_label == options.pod_label:
        return (
            f"--prometheus-namespace-label and --prometheus-pod-label are both {options.pod_label}; "
            "give two different labels."
        )
    return ""
