"""Reserved paths of a pod's file system, where users may not mount volumes, and reserved names of volumes."""

MODELS = "/models"
"""Folder of weights that come from a claim or an image."""
CACHE = "/cache"
"""Folder of downloaded weights and compile caches."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the path inside the pod; NCCL needs more than a container's default 64 MB
TEMPORARY = "/tmp"  # noqa: S108 - the path inside the pod, whose root is read-only
SECRETS = "/var/run/secrets"
"""Folder of the service account's token and a model's credentials."""

RESERVED_TREES = (MODELS, CACHE, "/dev", "/proc", "/sys", SECRETS)
"""Users may not mount anything here or below."""
RESERVED_DIRECTORIES = ("/bin", "/etc", "/lib", "/lib64", "/run", "/sbin", TEMPORARY, "/usr", "/var", "/var/run")
"""Users may not mount here, because that would hide files of the image; folders below are allowed."""

RESERVED_VOLUMES = ("cache", "model", "model-credentials", "shm", "tmp")
"""Names of Forebay's own volumes in a pod."""
