"""The body of a dead letter for a terminal: decompressed and laid out within bounds, whatever its sender wrote."""

import json
import zlib
from dataclasses import dataclass

from clusterra_contracts.bus.envelope import CONTENT_ENCODING, GZIP

from clusterra_admin.dead_letters.letter import Letter
from clusterra_admin.terminal import visible

MOST_BYTES = 1024 * 1024
"""The most of a decompressed body that is shown."""
MOST_CHARACTERS = 4 * 1024 * 1024
"""JSON that would be longer than this with indentation is shown as it was sent."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A decompressed body."""

    content: bytes
    problem: str = ""
    """Why `content` is not the whole body; empty if it is."""


def opened(letter: Letter, most: int = MOST_BYTES) -> Opened:
    """The first `most` bytes of the body, decompressed where the envelope says that it is compressed."""
    lost = f"only the first {letter.row.kept} of {letter.row.size} bytes were kept" if letter.cut else ""
    if letter.headers.get(CONTENT_ENCODING) != GZIP:
        too_long = f"it has more than {most} bytes" if len(letter.body) > most else ""
        return Opened(letter.body[:most], lost or too_long)
    stream = zlib.decompressobj(wbits=31)
    try:
        content = stream.decompress(letter.body, most)
    except zlib.error:
        return Opened(letter.body[:most], "it is not gzip, although its header says so")
    if stream.eof:
        return Opened(content, lost)
    return Opened(content, lost or f"it has more than {most} bytes when decompressed, or it is incomplete")


def text_of(body: Opened) -> str:
    """The body as lines of visible characters: JSON laid out, all else as it was sent."""
    laid_out = None if body.problem else _laid_out(body.content)
    text = body.content.decode("utf-8", "backslashreplace") if laid_out is None else laid_out
    return "\n".join(visible(line) for line in text.split("\n"))


def _laid_out(content: bytes) -> str | None:
    """Indented JSON; None for what is not JSON, is nested too deeply, or would become too long."""
    parts, size = [], 0
    try:
        for part in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(json.loads(content)):
            size += len(part)
            if size > MOST_CHARACTERS:
                return None
            parts.append(part)
    except (ValueError, RecursionError):
        return None
    return "".join(parts)
