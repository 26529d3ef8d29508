"""Calls as bytes for a worker, and sealed results as values.

A result is unpickled only if it has the seal of the job: an HMAC with a key that only this program and the script of
the job have. Pickles can run code, and others may be able to write to the place where results are.
"""

import hashlib
import hmac
import importlib
import json
import pickle
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO

from clusterra.executor.errors import CannotPickle, PythonDiffers, RemoteTraceback, ResultRefused

PROTOCOL = 5
SEAL_BYTES = 32
type Call = tuple[tuple[Any, ...], Mapping[str, Any]]
"""The arguments of one call, and those with names."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the script of a job has: where the calls are, what they must be, and the key of the results."""

    name: str
    calls: str
    table: tuple[int, int, str]
    python: str | None
    """The version of Python that the worker must have; None where any will do."""
    tasks: int
    key: bytes = field(repr=False)

    def script(self, python: str) -> str:
        """The script of the job, which the program `python` runs."""
        plan = {
            "name": self.name,
            "calls": self.calls,
            "table": self.table,
            "tasks": self.tasks,
            "python": self.python,
            "key": self.key.hex(),
        }
        text = resources.files("clusterra.executor").joinpath("runner.py").read_text()
        interpreter = python if python.startswith("/") else f"/usr/bin/env {python}"
        _, _, rest = text.partition("\n")
        return f"#!{interpreter}\n" + rest.replace('PLAN = "{}"', f"PLAN = {json.dumps(plan)!r}", 1)

    def result(self, index: int) -> str:
        """The name of the file with the result of a task."""
        return f"{self.name}-{index}.result"


def written(name: str, function: Callable[..., Any], tasks: Sequence[Sequence[Call]], into: BinaryIO) -> Plan:
    """Write the calls of some tasks, each with any number of calls of one function. Raises CannotPickle."""
    begun = into.tell()
    cloudpickle = _cloudpickle()
    try:
        of_function, by_value = _dumped(function, cloudpickle)
        of_tasks = [_dumped([(args, dict(named)) for args, named in calls], cloudpickle) for calls in tasks]
    except Exception as error:
        hint = (
            "" if cloudpickle else "; the extra `executor` of clusterra-sdk (cloudpickle) pickles more, such as lambdas"
        )
        raise CannotPickle(f"the call cannot be pickled: {error}{hint}") from error
    by_value = by_value or any(each for _, each in of_tasks)

    def section(content: bytes) -> tuple[int, int, str]:
        at = into.tell() - begun
        into.write(content)
        return at, len(content), hashlib.sha256(content).hexdigest()

    source = None
    if by_value:
        inner: Any = importlib.import_module("cloudpickle.cloudpickle")
        source = section(Path(inner.__file__).read_bytes())
    table = {
        "cloudpickle": source,
        "function": section(of_function),
        "calls": [section(content) for content, _ in of_tasks],
    }
    python = ".".join(platform.python_version_tuple()[:2]) if by_value else None
    return Plan(name, f"{name}.calls", section(json.dumps(table).encode()), python, len(tasks), secrets.token_bytes(32))


def _cloudpickle() -> Any:
    """cloudpickle; None where the extra `executor` is not installed."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _dumped(value: object, cloudpickle: Any) -> tuple[bytes, bool]:
    """A value as bytes, and whether these have code, for which the worker needs the same Python.

    What can be named is sent by its name, so that it works with any Python. What is defined in the program itself
    cannot: the worker's `__main__` is another one.
    """
    if cloudpickle is None:
        found = pickle.dumps(value, PROTOCOL)
        if b"__main__" in found:
            raise pickle.PicklingError("it is defined in the program itself, which no worker has")
        return found, False
    if not cloudpickle.list_registry_pickle_by_value():
        try:
            found = pickle.dumps(value, PROTOCOL)
        except Exception:  # noqa: S110 - cloudpickle says what cannot be pickled
            pass
        else:
            if b"__main__" not in found:
                return found, False
    by_value: bytes = cloudpickle.dumps(value, PROTOCOL)
    return by_value, True


def opened(plan: Plan, index: int, sealed: bytes) -> list[Any]:
    """The values of a task's calls. Raises what a call has raised, ResultRefused and PythonDiffers."""
    seal, body = memoryview(sealed)[:SEAL_BYTES], memoryview(sealed)[SEAL_BYTES:]
    expected = hmac.new(plan.key, b"%d:" % index, hashlib.sha256)
    expected.update(body)
    if not hmac.compare_digest(seal, expected.digest()):
        raise ResultRefused("a result does not have the seal of its job: somebody has changed it")
    kind, value, text = pickle.loads(body)  # noqa: S301 - our own job has sealed it
    match kind:
        case "values":
            return list(value)
        case "error":
            raise value from RemoteTraceback(text)
        case "version":
            raise PythonDiffers(
                f"the worker has Python {value}, and this program Python {plan.python}: "
                "give `python`, the path of the same Python on the cluster"
            )
    raise CannotPickle(f"the outcome of the call cannot be pickled:\n{value}")
