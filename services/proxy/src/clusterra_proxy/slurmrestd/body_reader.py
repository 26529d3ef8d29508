"""Parses a body, in this process or as a subprocess: `python -m clusterra_proxy.slurmrestd.body_reader MODULE MODEL`.

The subprocess imports only the models, so that it starts fast. It parses a list record by record as it arrives: all
records of 60,000 jobs at once would take 3 GiB.
"""

import importlib
import os
import sys
from collections.abc import Iterable
from typing import Any, BinaryIO

from pydantic import ValidationError

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.known_records import MAX_RECORDS
from clusterra_proxy.slurmrestd.reading.json_content import content_of
from clusterra_proxy.slurmrestd.reading.record_stream import RecordStream
from clusterra_proxy.slurmrestd.reading.repair import Unreadable, read_records
from clusterra_proxy.slurmrestd.relay.lists import PackedList

CHUNK_BYTES = 1024 * 1024
MAX_AT_ONCE = 2000
"""The longest list that is read at once, with the interpreter lock: a record takes up to 60 microseconds."""
MAX_VALUES = 150_000
"""The most values that are read at once. 2 MiB of jobs as Slurm writes them have 100,000."""
NICENESS = 5
"""While CPUs are scarce, the proxy itself comes first."""


def read[A: Answer](model: type[A], body: bytes) -> A:
    """Parse JSON as `model`, its records one by one if some cannot be read. Raises ValueError."""
    return read_content(model, content_of(body))


def read_content[A: Answer](model: type[A], content: Any) -> A:
    """Read parsed JSON as `model`, as `read` does. Raises ValueError."""
    try:
        return model.model_validate(content)
    except ValidationError:
        return model.read_by_record(content)


def takes_long(body: bytes) -> bool:
    """Whether JSON has so many values that even parsing it takes long. It has none without one of these characters."""
    return sum(map(body.count, (b",", b"[", b"{"))) > MAX_VALUES


def is_long(content: Any) -> bool:
    """Whether parsed JSON has a list that is not to be read at once."""
    values = content.values() if isinstance(content, dict) else ()
    return any(len(each) > MAX_AT_ONCE for each in values if isinstance(each, list))


def copy(model: type[Answer], source: BinaryIO, target: BinaryIO) -> None:
    """Read a body as `model`, and write one line for each record, and last the answer without them.

    A reader of the lines can take them one by one. Raises ValueError.
    """
    stream = RecordStream(model.RECORDS)
    unreadable: list[Unreadable] = []

    def write(items: Iterable[Any]) -> None:
        for item in items:
            records, problems = read_records(model.RECORD, (item,))
            unreadable.extend(problems)
            if len(unreadable) > MAX_RECORDS:
                raise ValueError("the answer has too many records that cannot be read")
            for record in records:
                target.write(record.model_dump_json(exclude_defaults=True, by_alias=True).encode() + b"\n")

    while chunk := source.read(CHUNK_BYTES):
        write(stream.feed(chunk))
    last, rest = stream.finish()
    write(last)
    answer = read(model, rest)
    for record in getattr(answer, model.RECORDS, ()):
        target.write(record.model_dump_json(exclude_defaults=True, by_alias=True).encode() + b"\n")
    answer = answer.model_copy(update={"unreadable": (*unreadable, *answer.unreadable)})
    target.write(answer.model_dump_json(exclude={model.RECORDS}, exclude_defaults=True, by_alias=True).encode())


def main() -> None:
    """Copy standard input, read as the named model, to standard output."""
    module, name = sys.argv[1:]
    model: type[Answer] = getattr(importlib.import_module(module), name)
    os.nice(NICENESS)
    if issubclass(model, PackedList):
        model.transcribe(sys.stdin.buffer, sys.stdout.buffer)
    else:
        copy(model, sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
