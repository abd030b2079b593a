"""What prompts add to the steps that compute them, for arrays of requests."""

from __future__ import annotations

from forebay.simulation.engine.simulated_profile import EngineProfile
from forebay.simulation.traffic.traces import Floats


def prefill_seconds(profile: EngineProfile, prompt: Floats, computed: Floats) -> Floats:
    """`b·P + e·I²` of each, by its tokens and those of them that no cache spares."""
    seconds: Floats = profile.prompt_token_seconds * computed + profile.prompt_square_seconds * prompt**2
    return seconds
