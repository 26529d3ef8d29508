"""What the parts of a stored progress have in common."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """A part of what is stored."""

    model_config = ConfigDict(frozen=True, extra="ignore")
