"""A process with a plain consumer of nats-py, which only notes arrivals: `python -m events.plain`."""

import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

import nats
from nats.aio.msg import Msg
from nats.errors import TimeoutError as NotInTime
from nats.js.api import ConsumerConfig, DeliverPolicy
from pydantic import BaseModel

from events.load import Published, Told, serve, summary
from events.receivers import NUMBER

Kind = Literal["subscription", "consumer"]
STREAM = "EVENT"


class Plain(BaseModel):
    """What it listens to. A `consumer` is one of JetStream that pulls and acknowledges each message."""

    url: str
    user: str
    password_file: Path
    subject: str
    kind: Kind


async def run(load: Plain, published: Callable[[], Awaitable[Published]]) -> Told:
    """Listen to the end."""
    arrived = dict[int, float]()

    def note(message: Msg) -> None:
        if found := NUMBER.search(message.data):
            arrived.setdefault(int(found[1]), time.monotonic())

    async def take(message: Msg) -> None:
        note(message)

    async def take_and_acknowledge(message: Msg) -> None:
        note(message)
        await message.ack()

    client = await nats.connect(load.url, user=load.user, password=load.password_file.read_text().strip())
    if load.kind == "subscription":
        await client.subscribe(load.subject, cb=take)
    else:
        js = client.jetstream()
        # Pushed by the server: nothing that nats-py has is faster with an acknowledgement of each message.
        config = ConsumerConfig(deliver_policy=DeliverPolicy.NEW)
        await js.subscribe(load.subject, stream=STREAM, cb=take_and_acknowledge, manual_ack=True, config=config)
    known = await published()
    with suppress(NotInTime):
        await client.drain()
    told = summary([at - known.at[number] for number, at in arrived.items() if number < len(known.at)], len(known.at))
    return told.model_copy(update={"last_ms": (max(arrived.values(), default=0.0) - max(known.at)) * 1e3})


if __name__ == "__main__":
    serve(Plain, run)
