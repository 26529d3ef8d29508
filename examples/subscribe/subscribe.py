"""Prints the events of a workspace, with nats-py: `python subscribe.py nats://nats.example.com:4222 SUBJECT`.

The file `seed` has the seed of the program's own key, `login.jwt` its login. Both are read at every connect, so that a
renewed login is used from then on.
"""

import asyncio
import base64
import json
import sys
from pathlib import Path

import nats
import nkeys


def signature(nonce: str) -> bytes:
    pair = nkeys.from_seed(bytearray(Path("seed").read_text().strip().encode()))
    return base64.b64encode(pair.sign(nonce.encode()))


async def main(url: str, subject: str) -> None:
    client = await nats.connect(
        url,
        user_jwt_cb=lambda: bytearray(Path("login.jwt").read_text().strip().encode()),
        signature_cb=signature,
        max_reconnect_attempts=-1,
    )
    events = await client.subscribe(subject)
    async for message in events.messages:
        event = json.loads(message.data)
        print(event["time"], event["id"], message.subject, flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2]))
