"""What must outlive the agent's own process: small JSON files that are whole or absent, in one locked folder.

They guard against the end of the process, not of the machine: the workers do not outlive that either.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError


class StateUnreadable(Exception):
    """A file of the state folder is not what this agent writes."""


class StateInUse(Exception):
    """Another agent holds the state folder."""


def write(path: Path, state: object) -> None:
    """Replace the file at once; `state` is a model or dataclass of pydantic. Raises OSError."""
    part = path.with_suffix(".part")
    part.write_bytes(TypeAdapter(type(state)).dump_json(state))
    part.replace(path)


def read[M](path: Path, model: type[M]) -> M | None:
    """The file's content, None when there is none. Raises StateUnreadable."""
    try:
        return TypeAdapter(model).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise StateUnreadable(
            f"{path} is no {model.__name__}: see that nothing runs which it should name, then delete it"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Hold the folder, made when missing, as its only agent. Raises StateInUse.

    The kernel frees it with this process, however that ends: workers do not inherit the lock.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateInUse(
                f"another agent works in {folder}: one cluster has one agent and one state folder"
            ) from None
        yield folder
    finally:
        os.close(lock)
