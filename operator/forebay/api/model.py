"""What every model of the API shares: camelCase on the wire, frozen in memory, docstrings as descriptions."""

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

GROUP = "forebay.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"


class Model(BaseModel):
    """A piece of a manifest. Unknown fields are ignored: the API server has pruned them, or is newer than we are."""

    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
        extra="ignore",
    )
