"""Which jobs a node takes, as its Extra in Slurm says it.

Slurm holds each job's expression against that JSON. `job_submit.lua` of images/slurm gives jobs `open=1|CLASS=1`. A key
that is not there, and a node without any Extra, fulfil nothing.
"""

import json
import re
from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

OPEN = '{"open":1}'
"""Takes every job."""

_EXTRA = TypeAdapter(dict[str, int])
_CLASS = re.compile(r"open=1\|([\w.]+)=1")


def closed(classes: Iterable[str] = ()) -> str:
    """Takes only jobs of some classes. The same classes make the same text."""
    return json.dumps({"open": 0} | dict.fromkeys(sorted(classes), 1), separators=(",", ":"))


def of_new_worker(gres: str) -> str:
    """What a worker with these generic resources registers with: it takes every job, one with GPUs none with a class.

    Jobs for GPUs have no class. To others the scaler opens it: in the meantime they would take the CPUs of these.
    """
    return closed() if gres else OPEN


def says_what_it_takes(extra: str) -> bool:
    """Whether a node's Extra is one of these, and not somebody else's."""
    try:
        return "open" in _EXTRA.validate_json(extra)
    except ValidationError:
        return False


def job_class(extra: str) -> str | None:
    """The class in a job's expression; None for a job that has none and so runs everywhere."""
    found = _CLASS.search(extra)
    return found[1] if found else None
