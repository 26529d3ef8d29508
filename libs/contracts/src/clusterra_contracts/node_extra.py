"""A node's Extra in Slurm: which job classes the node accepts.

Slurm evaluates each job's `--extra` expression against that JSON. `job_submit.lua` of images/slurm gives jobs the
expression `open=1|CLASS=1`. A missing key, and a node without Extra, match no expression.
"""

import json
import re
from collections.abc import Iterable

from pydantic import TypeAdapter, ValidationError

OPEN = '{"open":1}'
"""The Extra of a node that accepts every job."""

_EXTRA = TypeAdapter(dict[str, int])
_CLASS = re.compile(r"open=1\|([\w.]+)=1")


def closed(classes: Iterable[str] = ()) -> str:
    """The Extra of a node that accepts only jobs of these classes. The same classes give the same string."""
    return json.dumps({"open": 0} | dict.fromkeys(sorted(classes), 1), separators=(",", ":"))


def registration_extra(gres: str) -> str:
    """The Extra that a worker with these generic resources registers with.

    A worker without GPUs accepts every job. A worker with GPUs accepts no job that has a class: GPU jobs have no class,
    and others would take their CPUs before the scaler can decide to open the node.
    """
    return closed() if gres else OPEN


def is_class_filter(extra: str) -> bool:
    """Whether a node's Extra was written by Clusterra, and not by somebody else."""
    try:
        return "open" in _EXTRA.validate_json(extra)
    except ValidationError:
        return False


def job_class(extra: str) -> str | None:
    """The class in a job's expression; None for a job without a class, which may run on every node."""
    found = _CLASS.search(extra)
    return found[1] if found else None


def admits(node_extra: str, extra: str) -> bool:
    """Whether a node with this Extra accepts a job with this expression, as far as its class tells."""
    name = job_class(extra)
    if name is None:
        return True
    try:
        accepted = _EXTRA.validate_json(node_extra)
    except ValidationError:
        return False
    return accepted.get("open") == 1 or accepted.get(name) == 1
