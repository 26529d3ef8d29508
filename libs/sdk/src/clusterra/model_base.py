"""The base of all models of answers."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A part of an answer. Fields of later releases are ignored. Its validator is built when it is first used."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)
