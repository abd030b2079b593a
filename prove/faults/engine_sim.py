"""What the suites rest on behaves as it should: the stand-in for vLLM, and the simulation that policies play in."""

from prove.fault import Fault
from prove.mutations import at, calling, replaced, without

FAULTS = (
    Fault(
        "engine-sim.cuts-streams-on-sigterm",
        claim="engine-sim finishes what it has within --shutdown-timeout",
        planted="it drains for no time",
        changes=(at("engine_sim:_serve", replaced("shutdown_timeout", "0.0", nth=2)),),
        guards=("test_a_drain_finishes_what_runs_and_what_waits",),
    ),
    Fault(
        "engine-sim.another-interface",
        claim="engine-sim exports vLLM's series with true counts, and refuses a flag that vLLM does not know",
        planted="a series has another name, a token is not counted, and unknown flags are swallowed",
        changes=(
            at("_GAUGES", replaced("vllm:num_requests_running", '"vllm:requests_running"')),
            at("ReplicaEngine._end_step", without("generation_tokens")),
            at("parse_serve", calling("parse_args", "_.parse_known_args"), replaced("parse_known_args", "_[0]")),
        ),
        guards=(
            "test_a_server_that_has_answered",
            "test_the_operators_own_telemetry_reads_it",
            "test_counters_equal_what_clients_received",
            "test_removed_flags_end_the_process",
            "test_vllm_arguments::test_refusals",
        ),
    ),
    Fault(
        "engine-sim.a-peer-weakened",
        claim="a peer's steps are those of its published formula",
        planted="the HPA sees 80 % of its metric",
        changes=(at("PerPod.proposal", replaced("fsum", "0.8 * _")),),
        guards=("test_pods_metric",),
    ),
    Fault(
        "engine-sim.policies-see-too-much",
        claim="a policy sees what a scrape told it, some time later, and nothing that has not happened yet",
        planted="answers arrive at once, and every peer is the oracle",
        changes=(
            at("Scrapes._ask", calling("after", "(lambda seconds, act: act())", nth=1)),
            at("Comparison.peer", calling("policy", "(lambda _: Oracle(self.fleet))")),
        ),
        guards=(
            "test_a_scrape_is_visible_only_after_its_delay",
            "test_only_the_oracle_knows_the_future",
        ),
    ),
)
