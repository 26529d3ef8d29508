"""Reads a large body in a process of its own: `python -m clusterra_proxy.slurmrestd.body_reader MODULE MODEL`.

It imports no more than the models, to be there soon.
"""

import importlib
import sys

import orjson
from pydantic import BaseModel


def read[M: BaseModel](model: type[M], body: bytes) -> M:
    """Read JSON as `model`. Raises ValueError."""
    return model.model_validate(orjson.loads(body))


def main() -> None:
    """Read standard input as the model that is named; write what of it we know to standard output."""
    module, name = sys.argv[1:]
    model: type[BaseModel] = getattr(importlib.import_module(module), name)
    content = read(model, sys.stdin.buffer.read())
    sys.stdout.write(content.model_dump_json(exclude_defaults=True, by_alias=True))


if __name__ == "__main__":
    main()
