"""Volumes of an engine pod, the only writable directories: its root filesystem is read-only and its user is not root.

The cache holds downloaded weights and compiled kernels. On a PersistentVolumeClaim or a node's directory it outlives
the pod, and the next pod starts minutes sooner. Equal pods may share it.
"""

from typing import Any, Final

from forebay.api.inference_service import InferenceServiceSpec, PodVolume, WeightCache
from forebay.api.spec.pod_paths import CACHE, SHARED_MEMORY, TEMPORARY
from forebay.workloads.spec.engine_versions import ResolvedEngine
from forebay.workloads.spec.model_source import SourceParts

SHARED_MEMORY_SIZE: Final = "8Gi"
"""NCCL needs more than the 64 MB that a container gets (vllm#37982). Pages are allocated when they are used, and count
as memory of the container."""


def pod_volumes(spec: InferenceServiceSpec, engine: ResolvedEngine, source: SourceParts) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [{"name": "tmp", "emptyDir": {}}, _cache(spec.model.cache)]
    if engine.gpus > 1:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": SHARED_MEMORY_SIZE}})
    volumes.extend(source.volumes)
    volumes.extend(_user_volume(volume) for volume in spec.pod.volumes)
    return volumes


def volume_mounts(spec: InferenceServiceSpec, engine: ResolvedEngine, source: SourceParts) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": TEMPORARY},
        {"name": "cache", "mountPath": CACHE},
    ]
    if engine.gpus > 1:
        mounts.append({"name": "shm", "mountPath": SHARED_MEMORY})
    mounts.extend(source.mounts)
    for volume in spec.pod.volumes:
        mount: dict[str, Any] = {"name": volume.name, "mountPath": volume.mount_path}
        if volume.read_only:
            mount["readOnly"] = True
        mounts.append(mount)
    return mounts


def _cache(cache: WeightCache | None) -> dict[str, Any]:
    """The cache volume. A node's directory must exist and be writable for group 1000, because a directory that the
    kubelet creates belongs to root. The restricted pod security profile forbids it, unlike the other choices.
    """
    if cache is not None and cache.pvc is not None:
        return {"name": "cache", "persistentVolumeClaim": {"claimName": cache.pvc}}
    if cache is not None and cache.node_path is not None:
        return {"name": "cache", "hostPath": {"path": cache.node_path, "type": "Directory"}}
    return {"name": "cache", "emptyDir": {}}


def _user_volume(volume: PodVolume) -> dict[str, Any]:
    if volume.pvc is not None:
        return {
            "name": volume.name,
            "persistentVolumeClaim": {"claimName": volume.pvc, "readOnly": True}
            if volume.read_only
            else {"claimName": volume.pvc},
        }
    if volume.secret is not None:
        return {"name": volume.name, "secret": {"secretName": volume.secret}}
    if volume.config_map is not None:
        return {"name": volume.name, "configMap": {"name": volume.config_map}}
    return {"name": volume.name, "emptyDir": {}}
