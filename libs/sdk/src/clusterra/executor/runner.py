#!/usr/bin/env python3
"""Runs one call on a worker: the script of the job. It has the standard library alone, of Python 3.9 or newer.

The line with `PLAN = ` is replaced. The plan has the checksum of the calls' table and the key of the results. Nobody
but the job's user can read the script, so nothing of the folder, where others might write, has to be trusted.
"""

import hashlib
import hmac
import json
import os
import pickle
import sys
import traceback
import types
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

PLAN = "{}"


def section(file: BinaryIO, where: tuple[int, int, str]) -> bytes:
    """Some bytes of the calls, which have their checksum."""
    begin, size, digest = where
    file.seek(begin)
    found = file.read(size)
    if not hmac.compare_digest(hashlib.sha256(found).hexdigest(), digest):
        raise RuntimeError("the calls in the folder of the job were changed by somebody")
    return found


def load_cloudpickle(source: bytes) -> None:
    """Make `cloudpickle` importable, which a worker need not have."""
    package, inner = types.ModuleType("cloudpickle"), types.ModuleType("cloudpickle.cloudpickle")
    package.__path__ = []
    inner.__package__ = "cloudpickle"
    sys.modules["cloudpickle"], sys.modules["cloudpickle.cloudpickle"] = package, inner
    exec(compile(source, "cloudpickle.py", "exec"), inner.__dict__)  # noqa: S102 - its checksum is in the plan
    package.__dict__.update({name: value for name, value in vars(inner).items() if not name.startswith("__")})


def called(plan: dict[str, Any], index: int) -> tuple[str, Any, str]:
    """How the call ended: its kind, a value or an exception, and the traceback as text."""
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if plan["python"] not in (None, here):
        return "version", here, ""
    with Path(plan["calls"]).open("rb") as file:
        table = json.loads(section(file, plan["table"]))
        if table["cloudpickle"] is not None:
            load_cloudpickle(section(file, table["cloudpickle"]))
        of_function, of_calls = section(file, table["function"]), section(file, table["calls"][index])
    try:
        function = pickle.loads(of_function)  # noqa: S301 - its checksum is in the plan
        calls = pickle.loads(of_calls)  # noqa: S301
        return "values", [function(*args, **named) for args, named in calls], ""
    except BaseException as error:
        return "error", error, traceback.format_exc()


def dumped(outcome: tuple[str, Any, str]) -> bytes:
    """The outcome as bytes. What cannot be pickled becomes a text that says so."""
    try:
        found: bytes = sys.modules.get("cloudpickle", pickle).dumps(outcome, 5)
    except Exception as error:
        kind, _, text = outcome
        said = text if kind == "error" else f"the result cannot be pickled: {error!r}"
        return pickle.dumps(("unpicklable", said, text), 5)
    return found


def main() -> None:
    """Run the call of this task, and write its outcome beside the calls."""
    plan = json.loads(PLAN)
    index = int(os.environ.get("SLURM_ARRAY_TASK_ID", "0"))
    os.umask(0o077)
    if Path().stat().st_uid != os.getuid():
        sys.exit("the folder of the job is somebody else's")
    Path().chmod(0o700)
    outcome = called(plan, index)
    body = dumped(outcome)
    seal = hmac.new(bytes.fromhex(plan["key"]), b"%d:" % index, hashlib.sha256)
    seal.update(body)
    result = Path(f"{plan['name']}-{index}.result")
    unfinished = result.with_suffix(".part")
    with unfinished.open("wb") as file:
        file.write(seal.digest())
        file.write(body)
    unfinished.replace(result)
    # Not earlier: a task that is requeued reads the calls again.
    if all(Path(f"{plan['name']}-{each}.result").exists() for each in range(plan["tasks"])):
        with suppress(FileNotFoundError):
            Path(plan["calls"]).unlink()
    if outcome[0] != "values":
        sys.exit(outcome[2] or 1)


if __name__ == "__main__":
    main()
