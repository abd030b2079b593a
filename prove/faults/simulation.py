"""The measuring stick is straight: peers play at their own strength, and nobody sees more than a scrape tells."""

from prove.fault import Edit, Fault

FAULTS = (
    Fault(
        "simulation.a-peer-weakened",
        "a peer's steps are those of its published formula",
        (
            Edit(
                "operator/forebay/simulation/peers/hpa.py",
                "ratio = total / len(view.ready) / self.target",
                "ratio = 0.8 * total / len(view.ready) / self.target",
            ),
        ),
        ("tests/simulation/peers/test_hpa.py::test_pods_metric",),
    ),
    Fault(
        "simulation.the-oracle-shown-to-a-policy",
        "no policy acts on what has not happened yet",
        (
            Edit(
                "operator/forebay/simulation/compare/comparison.py",
                "control = PolicyControl({self.case.key: entry.policy(self.peer_inputs)})",
                "control = PolicyControl({self.case.key: Oracle(self.fleet)})",
            ),
        ),
        ("tests/simulation/compare/test_comparison.py::test_only_the_oracle_knows_the_future",),
    ),
    Fault(
        "simulation.no-scrape-delay",
        "a policy sees what an engine said only some time after it was asked",
        (
            Edit(
                "operator/forebay/simulation/cluster/scrape_model.py",
                "timeline.after(self.settings.delay_seconds, lambda: self._arrived(replica, answer))",
                "self._arrived(replica, answer)",
            ),
        ),
        ("tests/simulation/cluster/test_closed_loop.py::test_what_a_scrape_told_is_seen_only_after_its_delay",),
    ),
    Fault(
        "simulation.a-fluid-without-slow-prompts",
        "as many requests of a fluid are late as of discrete events",
        (
            Edit(
                "operator/forebay/simulation/fluid/fluid_first_token.py",
                "np.quantile(bucket[:, 1], (0.5, 0.99))",
                "np.quantile(bucket[:, 1], (0.5, 0.9))",
            ),
        ),
        ("tests/simulation/fluid/test_fluid.py::test_who_is_late_when_long_prompts_come_among_short_ones",),
    ),
)
