"""InferenceService: what a team asks for. The live replica number is in `status`, never in `spec`."""

from enum import StrEnum
from typing import Any

from pydantic import Field

from forebay.api.duration import Duration
from forebay.api.model import Model


class SecretRef(Model):
    name: str


class WeightCache(Model):
    """Where weights and compile caches are kept between pods; one of the two."""

    pvc: str | None = None
    """A PersistentVolumeClaim in the service's namespace."""
    node_path: str | None = None
    """An absolute directory on the node."""


class ModelSpec(Model):
    source: str
    """`hf://org/name[@revision]`, `s3://`, `gs://`, `oci://`, `pvc://claim/path`."""
    secret_ref: SecretRef | None = None
    cache: WeightCache | None = None
    quantization: str | None = None
    kv_cache_dtype: str | None = None
    max_model_len: int | None = None
    """Tokens."""


class EnvVar(Model):
    name: str
    value: str = ""


class EngineSpec(Model):
    image: str | None = None
    version: str | None = None
    """vLLM version, such as 0.32.0: decides flags and metric names."""
    tensor_parallel_size: int | None = None
    pipeline_parallel_size: int | None = None
    data_parallel_size: int | None = None
    gpu_memory_utilization_percent: int | None = None
    max_num_seqs: int = 256
    startup_timeout: Duration = Duration("20m")
    extra_args: tuple[str, ...] = ()
    env: tuple[EnvVar, ...] = ()


class GpuSpec(Model):
    product: str | None = None
    """Value of the node label `nvidia.com/gpu.product`."""
    node_selector: dict[str, str] | None = None
    resource_name: str = "nvidia.com/gpu"


class TimeToFirstToken(Model):
    p95: Duration = Duration("500ms")


class InterTokenLatency(Model):
    mean: Duration = Duration("40ms")


class QueueWait(Model):
    p99: Duration = Duration("1s")


class SloSpec(Model):
    time_to_first_token: TimeToFirstToken = TimeToFirstToken()
    inter_token_latency: InterTokenLatency = InterTokenLatency()
    queue_wait: QueueWait = QueueWait()


class ScalingMode(StrEnum):
    AUTO = "Auto"
    RECOMMEND = "Recommend"
    PAUSED = "Paused"


class Targets(Model):
    queue_depth: int = 20
    """Waiting requests per replica."""
    kv_cache_percent: int = 80


class ScalingSpec(Model):
    mode: ScalingMode = ScalingMode.AUTO
    min_replicas: int = 1
    max_replicas: int = 1
    targets: Targets = Targets()
    headroom_percent: int = 20
    scale_up_cooldown: Duration = Duration("90s")
    scale_down_cooldown: Duration = Duration("300s")


class WarmPoolSpec(Model):
    replicas: int = 0


class WhenNoSpare(StrEnum):
    AUTO = "Auto"
    WAIT = "Wait"
    REPLACE = "Replace"


class RolloutSpec(Model):
    drain_timeout: Duration = Duration("300s")
    max_surge: int = 1
    when_no_spare: WhenNoSpare = WhenNoSpare.AUTO


class Resources(Model):
    """CPU and memory as requests (and memory as limit); Kubernetes quantities as text."""

    cpu: str | None = None
    memory: str | None = None


class Toleration(Model):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class PodVolume(Model):
    """One volume and where it is mounted; exactly one source."""

    name: str
    mount_path: str
    read_only: bool = False
    pvc: str | None = None
    secret: str | None = None
    config_map: str | None = None
    empty_dir: bool = False


class EnvFrom(Model):
    secret: str | None = None
    config_map: str | None = None


class TopologySpread(Model):
    max_skew: int = 1
    topology_key: str
    when_unsatisfiable: str = "ScheduleAnyway"


class PodSpec(Model):
    """The narrow part of a pod that users override."""

    resources: Resources | None = None
    node_selector: dict[str, str] | None = None
    tolerations: tuple[Toleration, ...] = ()
    affinity: dict[str, Any] | None = None
    topology_spread_constraints: tuple[TopologySpread, ...] = ()
    service_account_name: str | None = None
    image_pull_secrets: tuple[str, ...] = ()
    runtime_class_name: str | None = None
    priority_class_name: str | None = None
    volumes: tuple[PodVolume, ...] = ()
    env_from: tuple[EnvFrom, ...] = ()
    annotations: dict[str, str] | None = None
    template_ref: str | None = None
    """Name of a core PodTemplate in the same namespace for the rest."""


class InferenceServiceSpec(Model):
    model: ModelSpec
    engine: EngineSpec = EngineSpec()
    gpu: GpuSpec = GpuSpec()
    slo: SloSpec = SloSpec()
    scaling: ScalingSpec = ScalingSpec()
    warm_pool: WarmPoolSpec = WarmPoolSpec()
    rollout: RolloutSpec = RolloutSpec()
    pod: PodSpec = PodSpec()


class Condition(Model):
    type: str
    status: str
    """True, False or Unknown."""
    reason: str
    message: str = ""
    last_transition_time: str
    observed_generation: int = 0


class ReplicaStatus(Model):
    desired: int = 0
    ready: int = 0
    loading: int = 0
    draining: int = 0
    warm: int = 0


class LoadStatus(Model):
    """Rounded; written at most every 30 s. Absent while unknown: missing is not zero."""

    queue: int | None = None
    kv_percent: int | None = None


class DecisionStatus(Model):
    rule: str
    """Name of the function that bound the decision."""
    because: str
    desired: int
    inputs: dict[str, str] = Field(default_factory=dict)


class InferenceServiceStatus(Model):
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    url: str | None = None
    replicas: ReplicaStatus = ReplicaStatus()
    load: LoadStatus = LoadStatus()
    decision: DecisionStatus | None = None
