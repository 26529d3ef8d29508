"""What the commands print. Others wrote subjects, reasons, headers and bodies: they are shown as visible characters."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from clusterra_admin.dead_letters.advisories import DAYS, MOST, Advised
from clusterra_admin.dead_letters.body import opened, text_of
from clusterra_admin.dead_letters.letter import Found, Letter, Row
from clusterra_admin.dead_letters.replay import Outcome
from clusterra_admin.terminal import visible


def list_lines(found: Found, advised: Sequence[Advised]) -> Iterator[str]:
    """The dead letters, two lines each, and then the advisories."""
    for row in found.rows:
        yield f"{row.sequence}  {_time(row)}  {_size(row)}  {visible(row.subject)}"
        yield f"    {visible(row.reason)}"
    if not found.rows:
        yield "no dead letters"
    if found.more:
        yield "there are older ones: --limit and --subject choose"
    yield ""
    yield from _advised_lines(advised)


def _advised_lines(advised: Sequence[Advised]) -> Iterator[str]:
    if not advised:
        yield f"NATS gave up no message in the last {DAYS} days"
        return
    yield f"messages given up or ended in the last {DAYS} days, by consumer:"
    for each in advised:
        consumer = visible(f"{each.stream}/{each.consumer}")
        given_up = f"{_count(each.given_up)} given up after the last delivery, without a dead letter"
        yield f"  {consumer}: {given_up}; {_count(each.terminated)} ended by the reader, dead letters among them"


def _count(number: int) -> str:
    return f"{number} or more" if number >= MOST else str(number)


def list_document(found: Found, advised: Sequence[Advised]) -> dict[str, Any]:
    """The document of `list --json`."""
    return {
        "dead_letters": [_record(row) for row in found.rows],
        "more": found.more,
        "advisories": [
            {
                "stream": each.stream,
                "consumer": each.consumer,
                "given_up": each.given_up,
                "terminated": each.terminated,
            }
            for each in advised
        ],
    }


def _record(row: Row) -> dict[str, Any]:
    return {
        "sequence": row.sequence,
        "stored_at": None if row.stored_at is None else row.stored_at.isoformat(),
        "subject": row.subject,
        "reason": row.reason,
        "bytes": row.size,
        "kept_bytes": row.kept,
    }


def letter_lines(letter: Letter) -> Iterator[str]:
    """A dead letter with its headers and its body."""
    row = letter.row
    yield f"sequence: {row.sequence}"
    yield f"time: {_time(row)}"
    yield f"subject: {visible(row.subject)}"
    yield f"reason: {visible(row.reason)}"
    yield f"size: {_size(row)}"
    yield "headers:"
    for name, value in letter.headers.items():
        yield f"  {visible(name)}: {visible(value)}"
    body = opened(letter)
    yield f"body ({body.problem}):" if body.problem else "body:"
    # Indented, so that no line of a body looks like one of ours.
    for line in text_of(body).split("\n"):
        yield f"  {line}"


def letter_document(letter: Letter) -> dict[str, Any]:
    """The document of `show --json`. The body is decompressed text; bytes that are not UTF-8 are escapes in it."""
    body = opened(letter)
    return {
        **_record(letter.row),
        "headers": dict(letter.headers),
        "body": body.content.decode("utf-8", "backslashreplace"),
        "body_problem": body.problem,
    }


def outcome_line(outcome: Outcome) -> str:
    """What became of one dead letter."""
    subject = f" {visible(outcome.subject)}" if outcome.subject else ""
    reason = f": {visible(outcome.reason)}" if outcome.reason else ""
    return f"{outcome.sequence}  {outcome.what}{subject}{reason}"


def summary(outcomes: Sequence[Outcome], *, more: bool) -> str:
    """How many dead letters came to each outcome."""
    counts = Counter(each.what for each in outcomes)
    told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items())) or "no dead letters"
    return f"{told}; there are older ones: repeat it, or name fewer subjects" if more else told


def replay_document(outcomes: Sequence[Outcome], *, more: bool) -> dict[str, Any]:
    """The document of `replay --json`."""
    counts = Counter(each.what for each in outcomes)
    return {
        "outcomes": [
            {"sequence": each.sequence, "outcome": each.what, "subject": each.subject, "reason": each.reason}
            for each in outcomes
        ],
        "counts": dict(counts),
        "more": more,
    }


def _time(row: Row) -> str:
    return "time unknown" if row.stored_at is None else f"{row.stored_at:%Y-%m-%d %H:%M:%S}Z"


def _size(row: Row) -> str:
    return f"{row.size} bytes" if row.size == row.kept else f"{row.size} bytes, {row.kept} kept"
