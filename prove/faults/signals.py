"""Missing is not zero: what was not reported is never a number, and never a reason to scale down."""

from prove.fault import Edit, Fault

LOAD = "operator/forebay/scaling/load/service_load.py"
SAMPLE = "operator/forebay/telemetry/engine_sample.py"
PROMETHEUS = "operator/forebay/telemetry/prometheus/prometheus_source.py"
SCRAPER = "operator/forebay/telemetry/direct/scraper.py"
STABILIZER = "operator/forebay/scaling/rules/stabilizer.py"
OUTAGE = "tests/planner/test_stories.py::test_a_metrics_outage_at_load_lowers_nothing"

FAULTS = (
    Fault(
        "signals.silence-counts-as-zero",
        "a serving replica that does not answer is unknown, not idle",
        (
            Edit(LOAD, "known=len(known),", "known=len(serving),"),
            Edit(
                LOAD,
                "in states if state is not Freshness.FRESH",
                "in states if state is None",
            ),
        ),
        (
            "tests/scaling/load/test_service_load.py::test_a_ready_pod_without_a_sample_is_unknown_and_not_idle",
            "tests/planner/test_properties.py::test_whoever_falls_silent_holds_the_count",
            OUTAGE,
        ),
    ),
    Fault(
        "signals.unknown-load-lowers",
        "nothing is scaled down while the load of a serving replica is not known",
        (
            Edit(STABILIZER, "    metrics_unknown,\n", ""),
            Edit(
                "operator/forebay/scaling/load/load_window.py",
                "if load.replicas == 0 or any(not silent.new for silent in load.silent):",
                "if load.replicas == 0:",
            ),
        ),
        (
            "tests/scaling/rules/test_stabilizer.py::test_what_holds_the_count",
            "tests/planner/test_properties.py::test_whoever_falls_silent_holds_the_count",
        ),
    ),
    Fault(
        "signals.stale-is-fresh",
        "a sample that has grown old says nothing about now",
        (
            Edit(
                "operator/forebay/scaling/load/freshness.py",
                "age_seconds = now - (expected_since if taken_at is None else taken_at)",
                "age_seconds = now - expected_since if taken_at is None else 0.0",
            ),
        ),
        (
            "tests/scaling/load/test_service_load.py::test_freshness",
            "tests/scaling/load/test_service_load.py::test_old_samples_are_not_added_up",
            OUTAGE,
        ),
    ),
    Fault(
        "signals.a-failed-scrape-is-an-idle-pod",
        "a scrape that fails leaves the last good sample to age",
        (
            Edit(
                SCRAPER,
                "signals = PodSignals(sample=before.sample, error=str(error))",
                "signals = PodSignals(sample=EngineSample(self._clock.now(), 0.0, 0.0, 0.0), error=str(error))",
            ),
        ),
        (
            "tests/telemetry/direct/test_scraper.py::test_a_pod_that_gives_nothing_is_unknown",
            "tests/telemetry/direct/test_scraper.py::test_the_last_good_sample_stays_and_ages",
        ),
    ),
    Fault(
        "signals.nan-is-zero",
        "NaN in a deciding gauge is no reading",
        (
            Edit(
                SAMPLE,
                'raise SignalMissing(f"{name} is {value}, which is no reading")\n        return values',
                "return [0.0]\n        return values",
            ),
        ),
        (
            "tests/telemetry/test_engine_sample.py::test_a_gauge_that_says_nothing_is_not_zero",
            "tests/telemetry/direct/test_scraper.py::test_an_answer_that_says_nothing_is_unknown",
        ),
    ),
    Fault(
        "signals.nan-is-a-sample",
        "the planner takes a sample with NaN in it for no sample",
        (
            Edit(
                "operator/forebay/planner/observe/pod_histories.py",
                "if told is not None and told.sample is not None and is_sound(told.sample):",
                "if told is not None and told.sample is not None:",
            ),
        ),
        ("tests/planner/report/test_service_status.py::test_metrics",),
    ),
    Fault(
        "signals.a-renamed-gauge-is-zero",
        "a gauge that an engine at work lacks is unknown: an engine upgrade may have renamed it",
        (Edit(SAMPLE, "            if done != 0:\n", "            if done < 0:\n"),),
        ("tests/telemetry/test_engine_sample.py::test_a_gauge_that_an_engine_at_work_lacks_is_not_zero",),
    ),
    Fault(
        "signals.any-page-is-an-idle-engine",
        "an answer that is not an engine's is unknown",
        (Edit(SAMPLE, 'if not body.startswith(_PREFIX) and b"\\n" + _PREFIX not in body:', "if False:"),),
        (
            "tests/telemetry/test_engine_sample.py::test_another_server_is_not_an_idle_engine",
            "tests/telemetry/direct/test_scraper.py::test_an_answer_that_says_nothing_is_unknown",
        ),
    ),
    Fault(
        "signals.a-cut-answer-is-read",
        "an answer that was cut on its way is refused as a whole",
        (Edit("operator/forebay/telemetry/text_format.py", 'if not body.endswith(b"\\n"):', "if False:"),),
        (
            "tests/telemetry/test_text_format.py::test_a_broken_answer_is_refused",
            "tests/telemetry/test_text_format.py::test_an_answer_cut_inside_a_line_is_refused",
            "tests/telemetry/test_engine_sample.py::test_a_cut_answer_is_refused",
        ),
    ),
    Fault(
        "signals.one-engine-of-a-pod",
        "the queue is summed over a pod's data-parallel engines",
        (
            Edit(
                SAMPLE,
                "        values = [reading.value for reading in readings]\n        for",
                "        values = [readings[0].value]\n        for",
            ),
        ),
        ("tests/telemetry/test_engine_sample.py::test_two_engines_are_summed_and_the_fullest_cache_counts",),
    ),
    Fault(
        "signals.a-gap-hides-a-peak",
        "after a restart or a gap the whole of scaleDownCooldown is watched before anything is scaled down",
        (Edit(STABILIZER, "    not_watched_in_full,\n", ""),),
        (
            "tests/scaling/rules/test_stabilizer.py::test_what_holds_the_count",
            "tests/planner/test_stories.py::test_an_operator_that_restarts_drains_nothing_before_it_has_watched",
        ),
    ),
    Fault(
        "signals.a-gone-pod-leaves-its-gauge",
        "a pod that is gone leaves no frozen gauge behind",
        (
            Edit(
                SCRAPER,
                "self._signals = {uid: signals for uid, signals in self._signals.items() if uid in uids}",
                "self._signals = dict(self._signals)",
            ),
        ),
        ("tests/telemetry/direct/test_scraper.py::test_a_pod_that_is_gone_is_forgotten",),
    ),
    Fault(
        "signals.unknown-shows-as-zero",
        "status shows no load while nobody knows it",
        (
            Edit(
                "operator/forebay/planner/report/service_status.py",
                "    if not load.known:\n        return LoadStatus()\n",
                "",
            ),
        ),
        ("tests/planner/report/test_service_status.py::test_the_load_is_absent_while_nobody_knows_it", OUTAGE),
    ),
    Fault(
        "signals.blind-caches-are-believed",
        "a watch cache that was not confirmed for minutes makes no world to plan from",
        (
            Edit(
                "operator/forebay/cluster/read/observer.py",
                "            if cache.age > BLIND_SECONDS:\n",
                "            if cache.age < 0:\n",
            ),
        ),
        ("tests/cluster/read/test_observer.py::test_what_was_not_confirmed_for_three_minutes_is_no_world",),
    ),
    Fault(
        "signals.a-repeated-value-is-fresh",
        "a value that Prometheus repeats is as old as its scrape",
        (
            Edit(PROMETHEUS, "from dataclasses import dataclass", "from dataclasses import dataclass, replace"),
            Edit(
                PROMETHEUS,
                "PodSignals(known.sample, ",
                "PodSignals(known.sample and replace(known.sample, taken_at=self._clock.now()), ",
            ),
        ),
        (
            "tests/telemetry/prometheus/test_prometheus_source.py::test_a_value_that_is_repeated_grows_old",
            "tests/telemetry/prometheus/test_prometheus_source.py::test_an_outage_holds_what_is_known",
        ),
    ),
    Fault(
        "signals.two-scrapes-make-one-sample",
        "what Prometheus tells of one scrape is not mixed with another's",
        (
            Edit(
                "operator/forebay/telemetry/prometheus/prometheus_answers.py",
                "                if at == wanted_at:\n",
                "                if wanted_at is not None:\n                    at = wanted_at\n",
            ),
        ),
        (
            "tests/telemetry/prometheus/test_prometheus_source.py::test_nothing_of_an_older_scrape_is_mixed_in",
            "tests/telemetry/prometheus/test_prometheus_source.py::test_a_pair_of_prometheus_servers_is_not_counted_twice",
        ),
    ),
    Fault(
        "signals.a-leap-is-believed",
        "numbers that no engine can reach order no fleet",
        (
            Edit(
                "operator/forebay/scaling/load/pod_history.py",
                "if leaps(history.newest, sample):",
                "if sample is None:",
            ),
        ),
        (
            "tests/scaling/load/test_pod_history.py::test_a_leap_is_no_reading_until_it_stays",
            "tests/simulation/cluster/test_broken_metrics.py::TestLies::test_numbers_that_no_engine_can_reach_order_no_fleet",
        ),
    ),
    Fault(
        "signals.frozen-pages-are-quiet-engines",
        "an engine that runs requests and counts nothing any more is not known to be idle",
        (
            Edit(
                "operator/forebay/planner/observe/replicas.py",
                "if history is None or not history.stalled(limit) or not all(pod.ready for pod in pods):",
                "if history is None or limit > 0:",
            ),
        ),
        (
            (
                "tests/simulation/cluster/test_broken_metrics.py::TestFreeze::"
                "test_pages_that_all_stand_still_are_the_metrics_and_nothing_is_touched"
            ),
            (
                "tests/simulation/cluster/test_broken_metrics.py::TestFreeze::"
                "test_one_that_stands_still_is_replaced_and_its_streams_end_well"
            ),
        ),
    ),
    Fault(
        "signals.a-reset-is-no-beginning",
        "a counter that went down began anew, and nothing is counted across it",
        (
            Edit(
                "operator/forebay/scaling/load/pod_history.py",
                "if _restarted(history.newest, sample):",
                "if sample is None:",
            ),
            Edit(
                "operator/forebay/scaling/load/arrivals.py",
                "requests=max(0.0, ended - began) / seconds,",
                "requests=abs(ended - began) / seconds,",
            ),
        ),
        ("tests/simulation/cluster/test_broken_metrics.py::test_counters_that_begin_anew_change_nothing",),
    ),
)
