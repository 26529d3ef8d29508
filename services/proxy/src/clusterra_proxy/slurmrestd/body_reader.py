"""Parses a body, in this process or as a subprocess: `python -m clusterra_proxy.slurmrestd.body_reader MODULE MODEL`.

The subprocess imports only the models, so that it starts fast.
"""

import importlib
import json
import sys
from typing import Any

import orjson
from pydantic import ValidationError

from clusterra_proxy.slurmrestd.answers import Answer


def read[A: Answer](model: type[A], body: bytes) -> A:
    """Parse JSON as `model`, its records one by one if some cannot be read. Raises ValueError."""
    content = _content(body)
    try:
        return model.model_validate(content)
    except ValidationError:
        return model.read_by_record(content)


def _content(body: bytes) -> Any:
    """Return the JSON of a body. Slurm passes on names in any encoding, so bytes that are not UTF-8 are replaced."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        text = body.decode(errors="replace")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        # Unlike orjson, it accepts `NaN` and lone surrogates.
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("the body is nested too deeply") from error


def main() -> None:
    """Parse standard input as the named model and write the model's fields to standard output."""
    module, name = sys.argv[1:]
    model: type[Answer] = getattr(importlib.import_module(module), name)
    content = read(model, sys.stdin.buffer.read())
    sys.stdout.buffer.write(content.model_dump_json(exclude_defaults=True, by_alias=True).encode())


if __name__ == "__main__":
    main()
