"""The agent's persistent state: small JSON files, each complete or absent, in one locked folder.

They survive the end of the process but not of the machine, which the workers do not survive either.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import TypeAdapter, ValidationError


class StateUnreadable(Exception):
    """A file in the state folder was not written by this agent."""


class StateInUse(Exception):
    """Another agent uses the state folder."""


def write(path: Path, state: object) -> None:
    """Replaces the file atomically. `state` is a model or dataclass of pydantic. Raises OSError."""
    part = path.with_suffix(".part")
    part.write_bytes(TypeAdapter(type(state)).dump_json(state, by_alias=True))
    part.replace(path)


def read[M](path: Path, model: type[M]) -> M | None:
    """Returns the file's content, or None when there is no file. Raises StateUnreadable."""
    try:
        return TypeAdapter(model).validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise StateUnreadable(
            f"{path} is not a valid {model.__name__}: make sure that no worker of it is running, then delete it"
        ) from error


@contextmanager
def locked(folder: Path) -> Iterator[Path]:
    """Locks the folder for this agent, and creates it if it is missing. Raises StateInUse.

    The kernel releases the lock when this process ends, however it ends. Workers do not inherit it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StateInUse(f"another agent uses {folder}: each agent needs a state folder of its own") from None
        yield folder
    finally:
        os.close(lock)
