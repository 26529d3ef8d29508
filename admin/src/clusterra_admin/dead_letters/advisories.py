"""The messages that NATS itself no longer delivers, as the stream ADVISORY has them."""

from collections import defaultdict
from dataclasses import dataclass

from clusterra_contracts.bus.topology import ADVISORY
from clusterra_runtime.nats.client import Client

from clusterra_admin.jetstream import stream_info

PREFIX = "$JS.EVENT.ADVISORY.CONSUMER."
GIVEN_UP = "MAX_DELIVERIES"
"""NATS gave a message up after its last delivery: its reader neither acknowledged it nor made it a dead letter."""
TERMINATED = "MSG_TERMINATED"
"""A reader ended the delivery of a message: it made it a dead letter, or only counted it, as there were too many."""
MOST = ADVISORY.bounds.messages_per_subject
"""How many advisories of a kind and a consumer are kept."""
DAYS = round(ADVISORY.max_age_seconds / (24 * 3600))


@dataclass(frozen=True, slots=True)
class Advised:
    """How many messages of a consumer were given up or ended in the last `DAYS` days."""

    stream: str
    consumer: str
    given_up: int
    terminated: int


async def advised(client: Client) -> list[Advised]:
    """The advisories that are kept, by stream and consumer. Raises BusUnavailable."""
    # The server counts by subject, so that no advisory is read.
    found = await stream_info(client, ADVISORY.name, subjects_filter=f"{PREFIX}>")
    counts: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for subject, count in (found["state"].get("subjects") or {}).items():
        kind, _, consumer = subject.removeprefix(PREFIX).partition(".")
        stream, _, name = consumer.partition(".")
        counts[stream, name][kind] = int(count)
    return [
        Advised(stream, name, of_kind.get(GIVEN_UP, 0), of_kind.get(TERMINATED, 0))
        for (stream, name), of_kind in sorted(counts.items())
    ]
