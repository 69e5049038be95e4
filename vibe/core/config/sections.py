"""Base of every table of ``config.toml``, and the numbers that stand in them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
PositiveSeconds = Annotated[float, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A table: immutable, and no unknown keys (the loader reports them before they get here)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
