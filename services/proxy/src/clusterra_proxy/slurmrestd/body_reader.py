"""Parses a body, in this process or as a subprocess: `python -m clusterra_proxy.slurmrestd.body_reader MODULE MODEL`.

The subprocess imports only the models, so that it starts fast.
"""

import importlib
import sys

from pydantic import ValidationError

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.reading.json_content import content_of


def read[A: Answer](model: type[A], body: bytes) -> A:
    """Parse JSON as `model`, its records one by one if some cannot be read. Raises ValueError."""
    content = content_of(body)
    try:
        return model.model_validate(content)
    except ValidationError:
        return model.read_by_record(content)


def main() -> None:
    """Parse standard input as the named model and write the model's fields to standard output.

    The first line is the answer without the records of its list, and each other line is a record: so the reader can
    take them one by one.
    """
    module, name = sys.argv[1:]
    model: type[Answer] = getattr(importlib.import_module(module), name)
    answer = read(model, sys.stdin.buffer.read())
    out = sys.stdout.buffer
    out.write(answer.model_dump_json(exclude={model.RECORDS}, exclude_defaults=True, by_alias=True).encode())
    for record in getattr(answer, model.RECORDS, ()):
        out.write(b"\n" + record.model_dump_json(exclude_defaults=True, by_alias=True).encode())


if __name__ == "__main__":
    main()
