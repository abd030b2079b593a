"""What a peer believes of one replica: step times by a profile, which need not be the true one."""

from dataclasses import dataclass

from forebay.capacity.model.engine_profile import EngineProfile
from forebay.capacity.model.replica_model import EngineModel, Mix, work_seconds
from forebay.simulation.peers.peer_view import PeerReplica


@dataclass(frozen=True, slots=True)
class AssumedEngine:
    """One engine by its profile, and the limits it runs with."""

    profile: EngineProfile
    max_num_seqs: int = 256
    batched_tokens: int = 8192

    def requests_per_second(self, prompt_tokens: float, output_tokens: float, inter_token_seconds: float) -> float:
        """The most that one engine carries while a step stays within the limit: `(1 - a/ITL)/s` (science of the model:
        `T = a/(1 - r·s)`)."""
        work = work_seconds(EngineModel(self.profile, self.profile.kv_tokens), Mix.fixed(prompt_tokens, output_tokens))
        return max(0.0, 1 - self.profile.step_seconds / inter_token_seconds) / work

    def first_token_seconds(self, replica: PeerReplica, prompt_tokens: float) -> float:
        """For one more request: the prompts before it, its own, and a step."""
        ahead = (replica.waiting + 1) * prompt_tokens
        return self.inter_token_seconds(replica) + ahead * self.profile.prompt_token_seconds

    def inter_token_seconds(self, replica: PeerReplica, times: float = 1.0) -> float:
        """A step that only decodes, with the replica's load multiplied by `times`."""
        profile = self.profile
        kv_tokens = replica.kv_fraction * profile.kv_tokens
        load = profile.sequence_seconds * replica.running + profile.kv_token_seconds * kv_tokens
        return profile.step_seconds + times * load
