"""The stand-in for vLLM behaves like it, or the suites that rest on it prove nothing."""

from prove.fault import Edit, Fault

FAULTS = (
    Fault(
        "engine-sim.cuts-streams-on-sigterm",
        "engine-sim finishes what it has within --shutdown-timeout",
        (
            Edit(
                "operator/forebay/simulation/vllm_server/engine_sim.py",
                "cut = await server.drain(arguments.shutdown_timeout)",
                "cut = await server.drain(0.0)",
            ),
        ),
        ("tests/simulation/vllm_server/test_engine_sim.py::test_a_drain_finishes_what_runs_and_what_waits",),
    ),
    Fault(
        "engine-sim.a-series-of-another-name",
        "engine-sim exports vLLM's series by vLLM's names",
        (
            Edit(
                "operator/forebay/simulation/vllm_server/vllm_metrics.py",
                '_Series("vllm:num_requests_running",',
                '_Series("vllm:requests_running",',
            ),
        ),
        (
            "tests/simulation/vllm_server/test_vllm_metrics.py::test_a_server_that_has_answered",
            "tests/simulation/vllm_server/test_vllm_metrics.py::test_the_operators_own_telemetry_reads_it",
        ),
    ),
    Fault(
        "engine-sim.counts-what-nobody-received",
        "engine-sim's counters equal the tokens that clients received",
        (
            Edit(
                "operator/forebay/simulation/engine/replica_engine.py",
                "            self.stats.generation_tokens += 1\n",
                "            self.stats.generation_tokens += 2\n",
            ),
        ),
        ("tests/simulation/vllm_server/test_vllm_metrics.py::test_counters_equal_what_clients_received",),
    ),
    Fault(
        "engine-sim.swallows-unknown-flags",
        "engine-sim refuses a flag that vLLM does not know",
        (
            Edit(
                "operator/forebay/simulation/vllm_server/vllm_arguments.py",
                "given = parser.parse_args(_normalized(arguments))",
                "given, _ = parser.parse_known_args(_normalized(arguments))",
            ),
        ),
        (
            "tests/simulation/vllm_server/test_vllm_arguments.py::test_removed_flags_end_the_process",
            "tests/simulation/vllm_server/test_vllm_arguments.py::test_refusals",
        ),
    ),
)
