"""What others wrote into dead letters reaches an operator's terminal as text, within bounds."""

import gzip
import json
import random
from collections.abc import AsyncIterator, Mapping

import pytest
from clusterra_admin.dead_letters import body as bodies
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.envelope import GZIP
from clusterra_lab.parts.nats import NatsServer
from clusterra_runtime.nats import bus
from dead_letter_world import MAIN, SUBJECT, Installation

pytestmark = pytest.mark.servers

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202egpj.exe\u2066\r\nsequence: 1"
DEEP = b"[" * 30_000 + b"]" * 30_000
WIDE = b"[" * 200 + b",".join([b"1"] * 20_000) + b"]" * 200
PLAIN_BYTES = 70_000
GZIPPED = {"content-encoding": GZIP}


@pytest.fixture
async def installation(nats: NatsServer) -> AsyncIterator[Installation]:
    client = await bus.connect(nats.settings(), "test")
    yield Installation(nats, client)
    await bus.close(client)


def harmless(text: str) -> bool:
    return all(each.isprintable() or each == "\n" for each in text)


@pytest.mark.parametrize(
    ("body", "headers", "shown"),
    [
        (ESCAPES.encode(), {}, r"\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202egpj.exe\u2066\r"),
        (json.dumps({"name": ESCAPES}).encode(), {}, r'"name": "\u001b]0;owned\u0007'),
        (b'{"a": "\\ud800"}', {}, r'"a": "\ud800"'),
        (b"\xff\xfe\x00 no text", {}, r"\xff\xfe\x00 no text"),
        (bytes(1024 * 1024), {}, "only the first 65536 of 1048576 bytes were kept"),
        (gzip.compress(b'{"a": [1, 2]}'), GZIPPED, '"a": ['),
        (gzip.compress(bytes(60 * 1024 * 1024)), GZIPPED, "it has more than 1048576 bytes when decompressed"),
        (gzip.compress(random.Random(1).randbytes(PLAIN_BYTES)), GZIPPED, "only the first 65536 of"),
        (b"\x1b[2J no gzip", GZIPPED, "it is not gzip, although its header says so"),
        (DEEP, {}, "[[[["),
        (WIDE, {}, "[[[["),
        (b"1" * 60_000, {}, "1111"),
        (b"", {}, "body:"),
    ],
    ids=[
        "escapes",
        "json",
        "surrogate",
        "bytes",
        "long",
        "gzip",
        "bomb",
        "cut",
        "no-gzip",
        "deep",
        "wide",
        "digits",
        "none",
    ],
)
async def test_a_body_is_shown_as_text_within_bounds(
    installation: Installation, body: bytes, headers: Mapping[str, str], shown: str
) -> None:
    # Of a subject of its own: services leave out what is too much of one.
    subject = subjects.event(MAIN, f"test.k{abs(hash(body))}")
    number = str(await installation.bury(subject, body, headers))

    text = (await installation.run("show", number)).out
    document = await installation.run("show", number, "--json")

    assert shown in text
    assert harmless(text)
    assert len(text) < 2 * bodies.MOST_CHARACTERS + 4096
    assert document.out.isascii()
    assert harmless(document.out.replace("\x7f", ""))
    assert document.json["bytes"] == len(body)
    # No line of a body looks like one of ours.
    assert [line for line in text.split("\n") if line.startswith("sequence: ")] == [f"sequence: {number}"]


async def test_an_edge_cannot_forge_what_a_dead_letter_is_of(installation: Installation) -> None:
    """An edge-agent may publish dead letters of its own desired state, with any header."""
    first = await installation.bury(SUBJECT, b"1")
    forged = {
        "x-dead-letter-subject": SUBJECT,
        "x-dead-letter-reason": f"forged {ESCAPES.partition(chr(13))[0]}",
        "x-dead-letter-bytes": "9" * 5000,
        "Nats-Subject": f"dlq.{SUBJECT}",
        "Nats-Sequence": str(first),
        "Nats-Time-Stamp": "yesterday",
        "Status": "404",
    }
    stored = await installation.client.jetstream().publish(
        subjects.dead_letter(subjects.scale_desired(MAIN)), b"{}", headers=forged
    )

    listed = await installation.run("list")
    rows = (await installation.run("list", "--json")).json["dead_letters"]
    shown = await installation.run("show", str(stored.seq))
    refused = await installation.run("replay", str(stored.seq), "--yes", code=2)

    assert [(row["sequence"], row["subject"]) for row in rows] == [
        (stored.seq, subjects.scale_desired(MAIN)),
        (first, SUBJECT),
    ]
    assert harmless(listed.out)
    assert harmless(shown.out)
    assert r"reason: forged \x1b]0;owned" in shown.out
    assert f"subject: {subjects.scale_desired(MAIN)}\n" in shown.out
    assert "no consumer takes messages of scale.desired" in refused.out
    assert len(await installation.letters()) == 2
