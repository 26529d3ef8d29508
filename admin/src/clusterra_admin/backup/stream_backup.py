"""Reads a whole stream by direct get, without a consumer, and writes its messages to a file."""

import base64
from pathlib import Path
from typing import Any

from clusterra_contracts.bus.envelope import InvalidMessage, decode, decode_foreign
from clusterra_contracts.bus.topology import HB, SCALE
from clusterra_contracts.heartbeat import MAX_DECODED_BYTES, Heartbeat
from clusterra_contracts.scale import DesiredState
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import Stored, replay

from clusterra_admin.backup.lines import LinesWriter
from clusterra_admin.backup.manifest import Stream
from clusterra_admin.backup.progress import Progress
from clusterra_admin.jetstream import stream_info

BATCH = 256
TIME = "Nats-Time-Stamp"
SERVERS_OWN = frozenset(
    {
        "Nats-Stream",
        "Nats-Subject",
        "Nats-Sequence",
        "Nats-Last-Sequence",
        TIME,
        "Nats-Num-Pending",
        "Nats-UpTo-Sequence",
    }
)
"""Headers that the server adds to what it returns; they are not part of the message."""


class StreamReader:
    """The backup of one stream, up to the last message that it had when the backup began."""

    def __init__(self, client: Client, name: str, progress: Progress) -> None:
        self._client = client
        self._name = name
        self._progress = progress
        self.highest_fence = 0
        """The highest fence in desired states and in heartbeats."""

    async def back_up(self, folder: Path) -> Stream:
        """Write the stream. Raises BusUnavailable, also for a stream that does not exist."""
        info = await stream_info(self._client, self._name)
        last = int(info["state"]["last_seq"])
        async with LinesWriter(folder, f"streams/{self._name}.jsonl.gz") as writer:
            batch: list[dict[str, Any]] = []
            async for stored in replay(self._client, self._name, ">"):
                if stored.sequence > last:
                    break
                batch.append(_record(stored))
                self._watch(stored)
                if len(batch) >= BATCH:
                    await writer.write(batch)
                    batch = []
                    self._progress.count(f"stream {self._name}", writer.lines, int(info["state"]["messages"]))
            await writer.write(batch)
        assert writer.file is not None  # noqa: S101 - the block has ended
        self._progress.tell(f"stream {self._name}: {writer.lines} messages")
        return Stream(
            name=self._name,
            config=info["config"],
            first_sequence=int(info["state"]["first_seq"]),
            last_sequence=last,
            file=writer.file,
        )

    def _watch(self, stored: Stored) -> None:
        """Learn the fence of a message; an unreadable one has none."""
        try:
            self.highest_fence = max(self.highest_fence, fence_and_generation(self._name, stored)[0])
        except InvalidMessage:
            return


def fence_and_generation(stream: str, stored: Stored) -> tuple[int, int]:
    """The fence and generation that a message shows a scaler to have had; (0, 0) for others. Raises InvalidMessage."""
    if stream == SCALE.name:
        return decode(DesiredState, stored.body, dict(stored.headers)).order
    if stream == HB.name:
        applied = decode_foreign(Heartbeat, stored.body, dict(stored.headers), max_bytes=MAX_DECODED_BYTES).applied
        return (applied.fence, applied.generation) if applied is not None else (0, 0)
    return (0, 0)


def _record(stored: Stored) -> dict[str, Any]:
    return {
        "subject": stored.subject,
        "sequence": stored.sequence,
        "time": stored.headers.get(TIME, ""),
        "headers": {name: value for name, value in stored.headers.items() if name not in SERVERS_OWN},
        "body": base64.b64encode(stored.body).decode(),
    }
