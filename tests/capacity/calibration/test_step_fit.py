"""The least-squares fit recovers the coefficients of an engine from its step times."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.capacity.calibration.step_fit import COEFFICIENTS, FitError, Observation, fit, predicted
from forebay.capacity.model.engine_profile import BUILT_IN, EngineProfile

TRUE = BUILT_IN["8b-h100"].profile
PRIOR = replace(TRUE, step_seconds=0.009, prompt_token_seconds=25e-6, sequence_seconds=6e-6, kv_token_seconds=0.04e-6)
LOADS = [(0, 1, 500), (40, 30, 15_000), (500, 100, 60_000), (900, 200, 60_000), (300, 250, 300_000), (2000, 10, 9000)]


def observations_of(profile: EngineProfile, loads=LOADS) -> list[Observation]:
    loads_without_seconds = [Observation(1.0, prompts, sequences, tokens) for prompts, sequences, tokens in loads]
    return [replace(observation, seconds=predicted(profile, observation)) for observation in loads_without_seconds]


def test_different_loads_determine_every_coefficient():
    fitted = fit(observations_of(TRUE), PRIOR)
    assert fitted.profile.step_seconds == pytest.approx(TRUE.step_seconds, rel=0.02)
    assert fitted.profile.prompt_token_seconds == pytest.approx(TRUE.prompt_token_seconds, rel=0.02)
    assert fitted.profile.kv_token_seconds == pytest.approx(TRUE.kv_token_seconds, rel=0.05)
    assert fitted.mean_error < 0.01
    assert set(fitted.determined) >= {"step_seconds", "prompt_token_seconds", "kv_token_seconds"}


def test_loads_of_one_length_determine_step_and_work_only():
    """Prompts, sequences and KV tokens are proportional, so the ratio of their coefficients stays that of the prior."""
    fitted = fit(observations_of(TRUE, [(n, n, 600 * n) for n in (1, 20, 60, 120, 240)]), PRIOR)
    assert fitted.profile.step_seconds == pytest.approx(TRUE.step_seconds, rel=0.05)
    assert fitted.mean_error < 0.01
    assert "prompt_token_seconds" not in fitted.determined
    assert "sequence_seconds" not in fitted.determined


def test_no_observations_raise_a_fit_error():
    with pytest.raises(FitError, match="no observation has a step time above 0"):
        fit([Observation(0.0, 1, 1, 1)], PRIOR)


def test_one_observation_scales_all_coefficients():
    [observation] = observations_of(TRUE, [(500, 100, 60_000)])
    fitted = fit([observation], PRIOR)
    assert predicted(fitted.profile, observation) == pytest.approx(observation.seconds, rel=0.01)


def test_noise_never_makes_a_coefficient_zero():
    """Steps that get shorter with more work must not give a negative coefficient."""
    observations = [Observation(0.010 - n * 1e-5, 10 * n, n, 100 * n) for n in range(1, 100, 10)]
    fitted = fit(observations, PRIOR)
    assert all(getattr(fitted.profile, name) > 0 for name in COEFFICIENTS)


@given(st.lists(st.floats(0.3, 3.0), min_size=4, max_size=4))
@settings(max_examples=50, deadline=None)
def test_the_fit_predicts_the_steps_of_any_engine(factors):
    true = replace(
        PRIOR,
        **{name: getattr(PRIOR, name) * factor for name, factor in zip(COEFFICIENTS, factors, strict=True)},
    )
    fitted = fit(observations_of(true), PRIOR)
    assert fitted.largest_error < 0.05
