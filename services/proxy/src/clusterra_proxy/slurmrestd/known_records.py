"""Reads lists of which little changes: only records whose bytes differ from those of the last answer are parsed.

A list of 60,000 states or 5,000 nodes has megabytes and changes by a few records between two polls. So the body is cut
at the beginning of each record, without parsing it. A cut at a wrong place makes a piece that is no JSON; then the
answer is left to the ordinary reader.
"""

from collections.abc import Iterable, Sequence

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.reading.json_content import content_of
from clusterra_proxy.slurmrestd.reading.record_stream import end_of, opening_of
from clusterra_proxy.slurmrestd.reading.repair import Readable, Unreadable, read_records

MAX_RECORDS = 200_000
"""The most records of a list. 60,000 jobs are the most that Slurm itself serves well."""
HEAD_BYTES = 32 * 1024 * 1024
"""The largest answer without its records: what could not be read of MAX_RECORDS is named there."""
_BETWEEN = b", \t\r\n"

type _Known = tuple[tuple[Readable, ...], tuple[Unreadable, ...]]
"""What a record's bytes are read as: the record, if it has an identity, and what could not be read of it."""


class KnownRecords[A: Answer]:
    """The records of the last answer, by their bytes. An unchanged record stays the same object.

    A read replaces what is known only at its end, so reads in two threads do no harm.
    """

    def __init__(self) -> None:
        self._listed = b""
        self._known: dict[bytes, _Known] = {}
        self._last: _Known = ((), ())
        self._whole: tuple[bytes, A] | None = None
        """The last body, and the answer that was made of it."""

    def read(self, model: type[A], body: bytes) -> A | None:
        """Parse a body as `model`; None for one that cannot be cut into records. Raises ValueError.

        For the same body as the last time it returns the same object.
        """
        whole = self._whole
        if whole is not None and whole[0] == body:
            return whole[1]
        cut = _cut(body, model.RECORDS)
        if cut is None:
            return None
        before, listed, after, opening = cut
        try:
            if listed != self._listed:
                pieces = (opening + piece.rstrip(_BETWEEN) for piece in listed.split(opening)[1:])
                self._take(model, pieces)
                self._listed = listed
        except ValueError:
            return None
        answer = self._answer(model, before + b"[]" + after)
        self._whole = body, answer
        return answer

    def read_lines(self, model: type[A], lines: Sequence[bytes]) -> A:
        """Parse an answer without its records in the last line, and a record in each other one. Raises ValueError."""
        self._whole = None
        self._take(model, lines[:-1])
        return self._answer(model, lines[-1])

    def _answer(self, model: type[A], head: bytes) -> A:
        if len(head) > HEAD_BYTES:
            raise ValueError("the answer has too much besides its records")
        content = content_of(head)
        lists = [each for each in content.values() if isinstance(each, list)] if isinstance(content, dict) else []
        if any(len(each) > MAX_RECORDS for each in lists):
            raise ValueError("the answer has too many records")
        answer = model.model_validate(content)
        if not model.RECORDS:
            return answer
        records, unreadable = self._last
        return answer.model_copy(update={model.RECORDS: records, "unreadable": (*answer.unreadable, *unreadable)})

    def _take(self, model: type[A], pieces: Iterable[bytes]) -> None:
        known: dict[bytes, _Known] = {}
        records: list[Readable] = []
        unreadable: list[Unreadable] = []
        for number, piece in enumerate(pieces):
            if number >= MAX_RECORDS:
                raise ValueError("the answer has too many records")
            found = self._known.get(piece)
            if found is None:
                read, problems = read_records(model.RECORD, (content_of(piece),))
                found = tuple(read), tuple(problems)
            known[piece] = found
            records += found[0]
            unreadable += found[1]
        self._known, self._last = known, (tuple(records), tuple(unreadable))


def _cut(body: bytes, name: str) -> tuple[bytes, bytes, bytes, bytes] | None:
    """Return what stands before, in and after the list, and how each of its records begins."""
    found = opening_of(body, name)
    if found is None:
        return None
    begin, _, opening = found
    last = body.rfind(opening)
    try:
        ends = last + end_of(body[last:])
    except ValueError:
        return None
    end = body.find(b"]", ends)
    if end < 0 or body[ends:end].strip():
        return None
    return body[:begin], body[begin + 1 : end], body[end + 1 :], opening
