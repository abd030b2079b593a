"""A pytest plugin for property tests: the same examples in every run, and none of them made small when it fails."""

from hypothesis import Phase, settings

settings.register_profile(
    "prove", derandomize=True, database=None, phases=(Phase.explicit, Phase.generate), deadline=None
)
settings.load_profile("prove")
