"""Publishes dead letters again on their own subjects, and then removes them from the stream DLQ."""

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from typing import Literal

from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import DLQ, JOB
from clusterra_runtime.nats.bus import MessageRejected, store
from clusterra_runtime.nats.client import Client
from clusterra_runtime.nats.direct import last_stored

from clusterra_admin.dead_letters.destination import Destination, Refused, destination
from clusterra_admin.dead_letters.letter import Letter, Row, read
from clusterra_admin.jetstream import remove_message

_EXPECTED = "Nats-Expected-Last-Subject-Sequence"
_WRONG_LAST_SEQUENCE = 10071
_NEWER = "the cluster has sent a newer snapshot, which it must not replace"

type What = Literal["replayed", "would be replayed", "refused", "gone"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one dead letter."""

    sequence: int
    what: What
    subject: str = ""
    """The subject on which it was published, or would have been."""
    reason: str = ""


@dataclass(slots=True)
class _Message:
    """One message, with the sequences of its dead letters. The first one names its replay."""

    destination: Destination
    sequences: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a replay will do."""

    messages: list[_Message]
    outcomes: list[Outcome]
    """The dead letters that are not replayed."""

    @property
    def foreseen(self) -> list[Outcome]:
        """The outcomes of the dead letters that will be replayed."""
        return [
            Outcome(sequence, "would be replayed", each.destination.subject)
            for each in self.messages
            for sequence in each.sequences
        ]


async def planned(client: Client, sequences: Iterable[int]) -> Plan:
    """Plan the replay of dead letters, which are only read. Raises BusUnavailable."""
    messages: dict[tuple[str, str], _Message] = {}
    others: list[Outcome] = []
    for sequence in sorted(set(sequences)):
        letter = await read(client, sequence)
        if letter is None:
            others.append(Outcome(sequence, "gone", reason="there is no such dead letter"))
            continue
        try:
            found = destination(letter)
            await _check_not_replaced(client, found, letter)
        except Refused as refused:
            others.append(_refused(letter.row, str(refused)))
            continue
        messages.setdefault((found.subject, found.content), _Message(found)).sequences.append(sequence)
    return Plan(list(messages.values()), others)


async def replay(client: Client, plan: Plan) -> AsyncGenerator[Outcome]:
    """Publish the messages of a plan one after the other, remove their dead letters, and yield each outcome.

    A dead letter is removed only after the stream of its message has acknowledged it. Raises BusUnavailable: then the
    dead letters without an outcome are still there, and the replay can be repeated.
    """
    for message in plan.messages:
        first = message.sequences[0]
        letter = await read(client, first)
        if letter is None:
            for sequence in message.sequences:
                yield Outcome(sequence, "gone", message.destination.subject, "it was replayed or removed meanwhile")
            continue
        try:
            await _publish(client, letter, first)
        except Refused as refused:
            for sequence in message.sequences:
                yield Outcome(sequence, "refused", message.destination.subject, str(refused))
            continue
        # The first one last: while it is there, a repeated replay has the same id.
        for sequence in reversed(message.sequences):
            await remove_message(client, DLQ.name, sequence)
            yield Outcome(sequence, "replayed", message.destination.subject)


async def _publish(client: Client, letter: Letter, first: int) -> None:
    found = destination(letter)
    headers = found.with_id(first)
    if found.stream == JOB.name:
        headers[_EXPECTED] = str(await _check_not_replaced(client, found, letter))
    try:
        await store(client, found.subject, letter.body, headers)
    except MessageRejected as rejected:
        if rejected.code == _WRONG_LAST_SEQUENCE:
            raise Refused(_NEWER) from None
        raise Refused(str(rejected)) from None


async def _check_not_replaced(client: Client, found: Destination, letter: Letter) -> int:
    """Check that no newer snapshot would be replaced by an older one. Returns the sequence of the stored one, or 0."""
    if found.stream != JOB.name:
        return 0
    stored = await last_stored(client, JOB.name, subjects.job_sharded(found.about.ref))
    if stored is None:
        return 0
    if stored.body != letter.body:
        raise Refused(_NEWER)
    return stored.sequence


def _refused(row: Row, reason: str) -> Outcome:
    return Outcome(row.sequence, "refused", row.subject, reason)
