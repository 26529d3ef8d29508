"""Removes from a stream what it holds under some subjects: of a cluster that is deleted, nothing stays."""

import json

import nats.errors
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusterra_runtime.nats.client import BusUnavailable, Client

ANSWER_SECONDS = 10.0
_NO_STREAM = 404


class _Error(BaseModel):
    model_config = ConfigDict(extra="ignore")

    code: int = 500
    description: str = ""


class _Purged(BaseModel):
    """The server's answer to a request to purge a stream."""

    model_config = ConfigDict(extra="ignore")

    purged: int = Field(default=0, ge=0)
    error: _Error | None = None


async def purge(client: Client, stream: str, subject: str) -> int:
    """Remove all messages of a stream whose subject fits. Returns how many there were. Raises BusUnavailable."""
    request = f"$JS.API.STREAM.PURGE.{stream}"
    if not await client.wait_connected(ANSWER_SECONDS):
        raise BusUnavailable(f"{request}: not connected to the bus")
    try:
        async with client.while_connected(ANSWER_SECONDS):
            answer = await client.request(request, json.dumps({"filter": subject}).encode(), timeout=ANSWER_SECONDS)
        told = _Purged.model_validate_json(answer.data)
    except (nats.errors.Error, TimeoutError, ValidationError) as error:
        raise BusUnavailable(f"{request}: no answer that can be used: {type(error).__name__}") from error
    if told.error is not None and told.error.code != _NO_STREAM:
        raise BusUnavailable(f"{request}: {told.error.description}")
    return told.purged
