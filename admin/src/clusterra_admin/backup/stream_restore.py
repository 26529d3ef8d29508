"""Stores the messages of a backup in a stream again, in their order, each once."""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import batched
from pathlib import Path
from typing import Annotated

from clusterra_contracts.bus import topology
from clusterra_contracts.bus.envelope import MESSAGE_ID
from clusterra_contracts.bus.topology import DLQ, EVENT, HB, JOB, SCALE
from clusterra_contracts.identity import Moment, now
from clusterra_runtime.nats import bus
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import replay
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusterra_admin.backup.lines import Line, read_batches
from clusterra_admin.backup.manifest import Stream
from clusterra_admin.backup.outcome import PartOutcome
from clusterra_admin.backup.progress import Progress
from clusterra_admin.jetstream import purge_stream, stream_info

RESTORED = (EVENT, DLQ)
"""The streams whose messages nobody else has. The others hold last states, which their senders publish again."""
REBUILT: Mapping[str, str] = {
    JOB.name: "the proxy publishes each cluster's queue",
    SCALE.name: "the scaler publishes each cluster's desired state from the record, under a new fence",
    HB.name: "each edge-agent sends a heartbeat every 5 s",
    topology.EDGE_EVENT.name: "events on their way to the stream EVENT, for ten minutes at most",
    topology.ADVISORY.name: "NATS reports messages that it gives up; those of the lost streams have no use",
    f"KV_{topology.REGISTRY.name}": "restored from the record, whose copy it is",
}
SEQUENCE_GAP = 1_000_000_000
"""Restored messages get sequences this far above the backup's last one. So a client that continues after an event of
the lost stream asks for a sequence that is not retained, and is told to read everything anew."""
ORIGIN = "x-restored-from"
"""The header with the stream's name and the sequence in the backup."""
WINDOW = 64
"""Messages that are stored at once."""
_LOOK_BACK = 4 * WINDOW


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)

    subject: Annotated[str, Field(min_length=1)]
    sequence: int
    time: Moment | None = None
    headers: dict[str, str] = Field(default_factory=dict)
    body: bytes
    line: int


class StreamWriter:
    """The restore of one stream. Messages that would be older than the stream keeps them are left out."""

    def __init__(self, client: Client, stream: topology.Stream, progress: Progress) -> None:
        self._client = client
        self._stream = stream
        self._progress = progress
        self._oldest = now() - timedelta(seconds=stream.max_age_seconds) if stream.max_age_seconds else None

    async def restore(self, folder: Path, backup: Stream) -> PartOutcome:
        """Store all messages. Those of an interrupted restore are not stored again. Raises BusUnavailable."""
        outcome = PartOutcome(name=backup.name)
        done, up_to = await self._restored_before(backup)
        async for lines in read_batches(folder / backup.file.path):
            messages = [message for line in lines if (message := self._message(line, outcome)) is not None]
            left = [each for each in messages if each.sequence > up_to and each.sequence not in done]
            outcome.repeated += len(messages) - len(left)
            for window in batched(left, WINDOW):
                await self._store(window, outcome)
                self._progress.count(f"stream {backup.name}", outcome.restored, backup.file.lines)
        self._progress.tell(f"stream {backup.name}: {outcome.restored} of {backup.file.lines} messages")
        return outcome

    async def _restored_before(self, backup: Stream) -> tuple[set[int], int]:
        """The sequences in the backup that the stream's last messages come from, and one up to which all are there."""
        state = (await stream_info(self._client, self._stream.name))["state"]
        if not state["messages"]:
            await purge_stream(self._client, self._stream.name, seq=backup.last_sequence + SEQUENCE_GAP)
            return set(), 0
        after = max(int(state["last_seq"]) - _LOOK_BACK, 0)
        done: set[int] = set()
        async for stored in replay(self._client, self._stream.name, ">", after=after):
            name, _, sequence = stored.headers.get(ORIGIN, "").rpartition("-")
            if name == self._stream.name and sequence.isdigit():
                done.add(int(sequence))
        # A window is stored as a whole before the next one begins, so all that come before the last two are there.
        return done, sorted(done)[-2 * WINDOW] if len(done) > 2 * WINDOW else 0

    def _message(self, line: Line, outcome: PartOutcome) -> _Message | None:
        number, content = line
        if not isinstance(content, dict):
            outcome.reject(number, "not JSON, or not a JSON object")
            return None
        try:
            body = base64.b64decode(content.get("body", ""), validate=True)
            given = content.get("time") or None
            at = datetime.fromisoformat(given[:19]).replace(tzinfo=UTC) if given else None
            message = _Message.model_validate({**content, "body": body, "time": at, "line": number})
        except (binascii.Error, TypeError, ValidationError, ValueError) as error:
            outcome.reject(number, f"{type(error).__name__}: not a message of a backup")
            return None
        if self._oldest is not None and message.time is not None and message.time < self._oldest:
            outcome.expired += 1
            return None
        return message

    async def _store(self, window: Sequence[_Message], outcome: PartOutcome) -> None:
        results = await asyncio.gather(*(self._store_one(message) for message in window), return_exceptions=True)
        for message, result in zip(window, results, strict=True):
            if isinstance(result, bus.MessageRejected):
                outcome.reject(message.line, str(result))
            elif isinstance(result, BaseException):
                raise result
            else:
                outcome.restored += 1

    async def _store_one(self, message: _Message) -> None:
        origin = f"{self._stream.name}-{message.sequence}"
        headers = {MESSAGE_ID: f"restore-{origin}", **message.headers, ORIGIN: origin}
        await bus.store(self._client, message.subject, message.body, headers)
