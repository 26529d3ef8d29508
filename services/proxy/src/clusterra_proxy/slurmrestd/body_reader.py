"""Parses a body, in this process or as a subprocess: `python -m clusterra_proxy.slurmrestd.body_reader MODULE MODEL`.

The subprocess imports only the models, so that it starts fast.
"""

import importlib
import sys

import orjson
from pydantic import BaseModel


def read[M: BaseModel](model: type[M], body: bytes) -> M:
    """Parse JSON as `model`. Raises ValueError."""
    return model.model_validate(orjson.loads(body))


def main() -> None:
    """Parse standard input as the named model and write the model's fields to standard output."""
    module, name = sys.argv[1:]
    model: type[BaseModel] = getattr(importlib.import_module(module), name)
    content = read(model, sys.stdin.buffer.read())
    sys.stdout.write(content.model_dump_json(exclude_defaults=True, by_alias=True))


if __name__ == "__main__":
    main()
