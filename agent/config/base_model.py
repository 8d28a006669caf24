"""The base class of all sections of a configuration file."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Frozen, exact in its types, closed to unknown keys."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")
