"""The directory of secrets: files that only their owner, or also a group, may read, written at once or not at all."""

import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from clusterra_admin.secrets.problem import SecretsProblem

_DIRECTORY_MODE = 0o750


class Directory:
    """The files of an installation's secrets, named by their path in the directory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, name: str) -> bool:
        """Whether a secret is there."""
        return (self.path / name).exists()

    def mode(self, name: str) -> int:
        """The permissions of a secret that is there."""
        return stat.S_IMODE((self.path / name).stat().st_mode)

    def restrict(self, name: str, mode: int) -> None:
        """Give a secret a mode. Raises SecretsProblem."""
        try:
            (self.path / name).chmod(mode)
        except OSError as error:
            raise SecretsProblem(
                f"{self.path / name} has mode {self.mode(name):04o}, wider than {mode:04o}"
                f" ({os.strerror(error.errno or 0)})",
                f"let its owner run `chmod {mode:04o} {self.path / name}`",
            ) from None

    def remove_parts(self) -> None:
        """Remove what killed runs left half written: it holds secrets. While another run writes, do nothing.

        Raises SecretsProblem.
        """
        if not self.path.is_dir():
            return
        try:
            with self._locked(fcntl.LOCK_EX | fcntl.LOCK_NB) as locked:
                for part in self.path.rglob(".*.part") if locked else ():
                    part.unlink(missing_ok=True)
        except OSError as error:
            raise SecretsProblem(
                f"an unfinished file in {self.path} cannot be removed ({os.strerror(error.errno or 0)})"
            ) from None

    def read(self, name: str, hint: str = "") -> str:
        """A secret in text. Raises SecretsProblem; `hint` says what to do when it is missing."""
        try:
            return (self.path / name).read_text()
        except FileNotFoundError:
            raise SecretsProblem(f"{self.path / name} is missing", hint) from None
        except (OSError, UnicodeDecodeError) as error:
            raise SecretsProblem(f"{self.path / name} cannot be read ({type(error).__name__})") from None

    def write(self, name: str, content: bytes, mode: int, *, replace: bool = False) -> None:
        """Write a secret with a mode. Without `replace` an existing one is an error. Raises SecretsProblem."""
        path = self.path / name
        part = path.with_name(f".{path.name}.{secrets.token_hex(8)}.part")
        try:
            self._make_parents(path)
            with self._locked(fcntl.LOCK_SH):
                self._write(part, path, content, mode, replace)
        except FileExistsError:
            raise SecretsProblem(f"{path} exists: it is not overwritten") from None
        except OSError as error:
            raise SecretsProblem(f"{path} cannot be written ({os.strerror(error.errno or 0)})") from None

    def _write(self, part: Path, path: Path, content: bytes, mode: int, replace: bool) -> None:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fchmod(descriptor, mode)
                os.fsync(descriptor)
            if replace:
                part.replace(path)
            else:
                # A link, unlike a rename, never replaces a file that another run has just made.
                path.hardlink_to(part)
        finally:
            part.unlink(missing_ok=True)

    @contextmanager
    def _locked(self, operation: int) -> Iterator[bool]:
        """Lock the directory: shared by runs that write, exclusive to remove parts. A killed run holds no lock.

        Yields whether it has the lock: file systems without such locks refuse it, and then nothing is removed.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(descriptor, operation)
                locked = True
            except OSError:
                locked = False
            yield locked
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove a secret; a missing one is no error."""
        (self.path / name).unlink(missing_ok=True)

    def _make_parents(self, path: Path) -> None:
        for parent in reversed([each for each in path.parents if each.is_relative_to(self.path)]):
            if not parent.exists():
                parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
