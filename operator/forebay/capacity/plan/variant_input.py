"""A service as one of its variants would have it: the same spec with the variant's GPU and sizes put in."""

from forebay.api.inference_service import InferenceServiceSpec, VariantSpec


def with_variant(spec: InferenceServiceSpec, variant: VariantSpec) -> InferenceServiceSpec:
    """What the variant leaves out is the service's own, but for tensorParallelSize: another GPU needs another one."""
    names = variant.engine.model_fields_set
    given = {name: getattr(variant.engine, name) for name in names}
    changes = {name: value for name, value in given.items() if value is not None} | {
        "tensor_parallel_size": variant.engine.tensor_parallel_size
    }
    gpu = variant.gpu if variant.gpu.product or variant.gpu.node_selector else spec.gpu
    return spec.model_copy(update={"gpu": gpu, "engine": spec.engine.model_copy(update=changes)})
