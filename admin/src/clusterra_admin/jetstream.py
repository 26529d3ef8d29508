"""Requests to JetStream's API that commands make."""

import json
from typing import Any

import nats.errors
from clusterra_runtime.nats.client import BusUnavailable, Client

REQUEST_SECONDS = 10.0
_NOT_FOUND = 404


class ApiRefused(BusUnavailable):
    """JetStream answered a request with an error. `code` is the error's code, such as 404."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


async def stream_info(client: Client, name: str, **options: Any) -> dict[str, Any]:
    """What JetStream knows of a stream: `config`, `state`, `created`. Raises BusUnavailable."""
    return await _request(client, f"STREAM.INFO.{name}", options)


async def purge_stream(client: Client, name: str, **options: Any) -> None:
    """Remove messages of a stream. Raises BusUnavailable."""
    await _request(client, f"STREAM.PURGE.{name}", options)


async def stored_message(client: Client, name: str, sequence: int) -> dict[str, Any] | None:
    """A message as the leader of a stream has it: `subject`, `seq`, `time`, and in base64 `hdrs` and `data`.

    Unlike a direct get it names the subject and the sequence apart from the headers, which its sender chose. None if
    there is no such message. Raises BusUnavailable.
    """
    try:
        found: dict[str, Any] = (await _request(client, f"STREAM.MSG.GET.{name}", {"seq": sequence}))["message"]
    except ApiRefused as refused:
        if refused.code == _NOT_FOUND:
            return None
        raise
    return found


async def remove_message(client: Client, name: str, sequence: int) -> None:
    """Remove one message of a stream, also if it is gone already. Raises BusUnavailable."""
    try:
        await _request(client, f"STREAM.MSG.DELETE.{name}", {"seq": sequence, "no_erase": True})
    except ApiRefused:
        # JetStream has one error code for a message that is gone and for a storage failure.
        if await stored_message(client, name, sequence) is not None:
            raise


async def _request(client: Client, subject: str, options: dict[str, Any]) -> dict[str, Any]:
    body = json.dumps(options).encode() if options else b""
    try:
        async with client.while_connected(REQUEST_SECONDS):
            message = await client.request(f"$JS.API.{subject}", body, timeout=REQUEST_SECONDS)
    except (nats.errors.Error, TimeoutError) as error:
        raise BusUnavailable(f"{subject}: JetStream does not answer ({error or type(error).__name__})") from error
    answer: dict[str, Any] = json.loads(message.data)
    if problem := answer.get("error"):
        told = f"{subject}: {problem.get('description')}: run `clusterra-admin topology apply`"
        raise ApiRefused(told, int(problem.get("code", 0)))
    return answer
