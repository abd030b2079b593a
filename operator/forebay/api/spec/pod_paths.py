"""Where a pod's file system is not a user's to mount over, and which names of volumes are taken."""

MODELS = "/models"
"""Weights that come from a claim or an image."""
CACHE = "/cache"
"""Downloaded weights and compile caches."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the path inside the pod; NCCL needs more than a container's default 64 MB
TEMPORARY = "/tmp"  # noqa: S108 - the path inside the pod, whose root is read-only
SECRETS = "/var/run/secrets"
"""The service account's token, and a model's credentials."""

CLOSED_TREES = (MODELS, CACHE, "/dev", "/proc", "/sys", SECRETS)
"""Nothing of a user's may be mounted here or below."""
CLOSED_ROOTS = ("/bin", "/etc", "/lib", "/lib64", "/run", "/sbin", TEMPORARY, "/usr", "/var", "/var/run")
"""Nothing may be mounted here, since it would hide what the image brings; folders below are fine."""

OWNED_VOLUMES = ("cache", "model", "model-credentials", "shm", "tmp")
"""Names of Forebay's own volumes in a pod."""
