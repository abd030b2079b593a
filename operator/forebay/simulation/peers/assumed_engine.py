"""The engine that a peer's rule assumes: step times by a profile, which may differ from the true one."""

from dataclasses import dataclass

from forebay.capacity.model.engine_profile import EngineProfile
from forebay.capacity.model.replica_model import EngineModel, Mix, work_seconds
from forebay.simulation.peers.peer_view import PeerReplica


@dataclass(frozen=True, slots=True)
class AssumedEngine:
    """One engine's assumed profile and its limits."""

    profile: EngineProfile
    max_num_seqs: int = 256
    batched_tokens: int = 8192

    def requests_per_second(self, prompt_tokens: float, output_tokens: float, inter_token_seconds: float) -> float:
        """The highest rate at which an engine keeps `inter_token_seconds`: `(1 − a/L)/s`.

        a is the fixed time of a step, s the work of a request in seconds, and L the limit. It follows from the replica
        model's time of a step at rate r, `T = a/(1 − r·s)`.
        """
        work = work_seconds(EngineModel(self.profile, self.profile.kv_tokens), Mix.fixed(prompt_tokens, output_tokens))
        return max(0.0, 1 - self.profile.step_seconds / inter_token_seconds) / work

    def first_token_seconds(self, replica: PeerReplica, prompt_tokens: float) -> float:
        """Time to the first token of one more request: the waiting prompts, its own prompt, and one step."""
        queued_tokens = (replica.waiting + 1) * prompt_tokens
        return self.inter_token_seconds(replica) + queued_tokens * self.profile.prompt_token_seconds

    def inter_token_seconds(self, replica: PeerReplica, times: float = 1.0) -> float:
        """Duration of a decode-only step, with the replica's load multiplied by `times`."""
        profile = self.profile
        kv_tokens = replica.kv_fraction * profile.kv_tokens
        load = profile.sequence_seconds * replica.running + profile.kv_token_seconds * kv_tokens
        return profile.step_seconds + times * load
