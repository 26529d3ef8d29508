"""Direct get (NATS ADR-31): reading a stream without a consumer, from any of its replicas."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime

import nats.errors
from clusterra_contracts.bus.envelope import decode
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from pydantic import BaseModel

from clusterra_runtime.nats.client import BusUnavailable, Client

REQUEST_SECONDS = 5.0
MOST_LATE_SECONDS = 60.0
"""How long a replay goes on while none of its pages arrives in time. Each that does is 256 messages of progress."""
PAGE = 256
_NOTHING = "404"
_SEQUENCE = "Nats-Sequence"
_TIMESTAMP = "Nats-Time-Stamp"


@dataclass(frozen=True, slots=True)
class Stored:
    """A message as a stream stores it."""

    sequence: int
    subject: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def stored_at(self) -> datetime | None:
        """When the server stored the message, by the server's clock; None if it does not say."""
        try:
            return datetime.fromisoformat(self.headers.get(_TIMESTAMP, ""))
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How far a stream goes. The sequences of a stream that was made anew, at another time, mean something else."""

    created: datetime
    sequence: int
    """That of its last message, 0 before the first one."""


async def last[M: BaseModel](client: Client, stream: str, subject: str, model: type[M]) -> tuple[M, int] | None:
    """Returns the last message on a subject of a stream, with its sequence; None if there is none.

    Raises BusUnavailable and InvalidMessage.
    """
    stored = await last_stored(client, stream, subject)
    return None if stored is None else (decode(model, stored.body, dict(stored.headers)), stored.sequence)


async def last_stored(client: Client, stream: str, subject: str) -> Stored | None:
    """Returns the last message on a subject of a stream, undecoded; None if there is none.

    The request's own subject contains the subject, so that permissions can limit it. Raises BusUnavailable.
    """
    request = f"$JS.API.DIRECT.GET.{stream}.{subject}"
    await _connected(client, request)
    try:
        async with client.while_connected(REQUEST_SECONDS):
            answer = await client.request(request, timeout=REQUEST_SECONDS)
    except nats.errors.NoRespondersError as error:
        raise BusUnavailable(f"{request}: the stream does not exist or does not allow direct get") from error
    except (nats.errors.Error, TimeoutError) as error:
        raise BusUnavailable(f"{request}: no answer ({error or type(error).__name__})") from error
    if (status := _status(answer)) == _NOTHING:
        return None
    if status is not None:
        raise BusUnavailable(f"{request}: {_error(answer)}")
    return _stored(answer)


async def replay(client: Client, stream: str, subject_filter: str, *, after: int = 0) -> AsyncIterator[Stored]:
    """Yields the messages of a stream that match a filter, in order, from the first sequence above `after`.

    Ends at the current end of the stream. Raises BusUnavailable; then replay again after the last message received.
    So it ends on a stalled machine too: after `MOST_LATE_SECONDS` without a page that arrives in time.
    """
    more, late_seconds = True, 0.0
    while more:
        if late_seconds >= MOST_LATE_SECONDS:
            raise BusUnavailable(f"{stream}: no page has arrived in time for {late_seconds:.0f} s")
        began = time.monotonic()
        found, more = await read_page(client, stream, subject_filter, after=after)
        took = time.monotonic() - began
        late_seconds = late_seconds + took if took >= REQUEST_SECONDS else 0.0
        for stored in found:
            after = stored.sequence
            yield stored


async def read_page(
    client: Client,
    stream: str,
    subject_filter: str,
    *,
    after: int = 0,
    since: datetime | None = None,
    max_bytes: int = 0,
) -> tuple[list[Stored], bool]:
    """Returns the next messages of a stream that match a filter, and whether there are more.

    They are those after a sequence, or those that were stored at the time `since` or later. At most PAGE messages, and
    with `max_bytes` about as many bytes. A page that does not end in time is returned as far as it has arrived: on a
    busy machine, the whole page might never arrive in time. Raises BusUnavailable.
    """
    request = f"$JS.API.DIRECT.GET.{stream}"
    await _connected(client, request)
    page: dict[str, object] = {"batch": PAGE, "next_by_subj": subject_filter}
    # The server refuses a request with both.
    page |= {"seq": after + 1} if since is None else {"start_time": since.isoformat()}
    if max_bytes:
        page["max_bytes"] = max_bytes
    inbox, found = client.new_inbox(), list[Stored]()
    try:
        answers = await client.subscribe(inbox)
        try:
            async with client.while_connected(REQUEST_SECONDS):
                await client.publish(request, json.dumps(page).encode(), inbox)
                return found, await _fill(found, answers, request)
        finally:
            if not client.is_closed:
                await answers.unsubscribe()
    except (nats.errors.Error, TimeoutError) as error:
        if found:
            return found, True
        raise BusUnavailable(f"{request}: no answer ({error or type(error).__name__})") from error


async def last_sequence(client: Client, stream: str) -> int:
    """Returns the sequence of a stream's last message, 0 before the first one. Raises BusUnavailable."""
    return (await stream_end(client, stream)).sequence


async def stream_end(client: Client, stream: str) -> StreamEnd:
    """Returns the end of a stream. Raises BusUnavailable."""
    request = f"$JS.API.STREAM.INFO.{stream}"
    await _connected(client, request)
    try:
        async with client.while_connected(REQUEST_SECONDS):
            answer = json.loads((await client.request(request, timeout=REQUEST_SECONDS)).data)
    except (nats.errors.Error, TimeoutError) as error:
        raise BusUnavailable(f"{request}: no answer ({error or type(error).__name__})") from error
    if problem := answer.get("error"):
        raise BusUnavailable(f"{request}: {problem.get('description')}")
    return StreamEnd(datetime.fromisoformat(answer["created"]), int(answer["state"]["last_seq"]))


async def _connected(client: Client, request: str) -> None:
    if not await client.wait_connected(REQUEST_SECONDS):
        raise BusUnavailable(f"{request}: not connected to NATS")


async def _fill(found: list[Stored], answers: Subscription, request: str) -> bool:
    """Add the messages of a page as they arrive, and return whether there are more after it."""
    while True:
        answer = await answers.next_msg(None)
        match _status(answer):
            case None:
                found.append(_stored(answer))
            case "204":
                return int((answer.headers or {}).get("Nats-Num-Pending", "0")) > 0
            case "404":
                return False
            case _:
                raise BusUnavailable(f"{request}: {_error(answer)}")


def _status(answer: Msg) -> str | None:
    """The status of an answer without a stored message. nats-py tells the status line as a header.

    A stored message may have a header `Status` of its own, which its sender chose. The server adds the sequence to it.
    """
    headers = answer.headers or {}
    return None if _SEQUENCE in headers else headers.get("Status")


def _error(answer: Msg) -> str:
    headers = answer.headers or {}
    return f"{headers.get('Status')} {headers.get('Description', '')}".rstrip()


def _stored(answer: Msg) -> Stored:
    headers = answer.headers or {}
    return Stored(int(headers[_SEQUENCE]), headers["Nats-Subject"], answer.data, headers)
