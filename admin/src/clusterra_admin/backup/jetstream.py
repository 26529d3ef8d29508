"""Requests to JetStream's API that a backup and a restore make."""

import json
from typing import Any

import nats.errors
from clusterra_runtime.nats.client import BusUnavailable, Client

REQUEST_SECONDS = 10.0


async def stream_info(client: Client, name: str, **options: Any) -> dict[str, Any]:
    """What JetStream knows of a stream: `config`, `state`, `created`. Raises BusUnavailable."""
    return await _request(client, f"STREAM.INFO.{name}", options)


async def purge_stream(client: Client, name: str, **options: Any) -> None:
    """Remove messages of a stream. Raises BusUnavailable."""
    await _request(client, f"STREAM.PURGE.{name}", options)


async def _request(client: Client, subject: str, options: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps(options).encode() if options else b""
    try:
        async with client.while_connected(REQUEST_SECONDS):
            message = await client.request(f"$JS.API.{subject}", body, timeout=REQUEST_SECONDS)
    except (nats.errors.Error, TimeoutError) as error:
        raise BusUnavailable(f"{subject}: JetStream does not answer ({error or type(error).__name__})") from error
    answer: dict[str, Any] = json.loads(message.data)
    if problem := answer.get("error"):
        raise BusUnavailable(f"{subject}: {problem.get('description')}: run `clusterra-admin topology apply`")
    return answer
