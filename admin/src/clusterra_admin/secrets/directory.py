"""The directory of secrets: files that only their owner, or also a group, may read, written at once or not at all."""

import os
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
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._make_parents(path)
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
        except FileExistsError:
            raise SecretsProblem(f"{path} exists: it is not overwritten") from None
        except OSError as error:
            raise SecretsProblem(f"{path} cannot be written ({os.strerror(error.errno or 0)})") from None

    def remove(self, name: str) -> None:
        """Remove a secret; a missing one is no error."""
        (self.path / name).unlink(missing_ok=True)

    def _make_parents(self, path: Path) -> None:
        for parent in reversed([each for each in path.parents if each.is_relative_to(self.path)]):
            if not parent.exists():
                parent.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
