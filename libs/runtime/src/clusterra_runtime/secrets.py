"""Reading secrets. Secrets are configured as references and read where they are used; their values never travel."""

import os
from pathlib import Path

from clusterra_contracts.registry import SecretReference

_read: dict[Path, tuple[tuple[int, int, int], bytes]] = {}


class SecretUnavailable(RuntimeError):
    """A secret cannot be read. The error names the reference, which is not secret, and what to do."""


def read_secret(reference: SecretReference) -> bytes:
    """Returns the value behind a reference, stripped of white space. A changed file is read again.

    Raises SecretUnavailable.
    """
    if not (value := read_binary_secret(reference).strip()):
        raise SecretUnavailable(f"{reference} is empty: write the secret into the file")
    return value


def read_binary_secret(reference: SecretReference) -> bytes:
    """Returns the value unstripped, for secrets in which every byte counts. Raises SecretUnavailable."""
    scheme, _, location = reference.partition(":")
    if scheme != "file":
        raise SecretUnavailable(
            f"secrets of the scheme {scheme!r} are not supported: mount the secret as a file, file:/path"
        )
    path = Path(location)
    try:
        status = path.stat()
        version = (status.st_mtime_ns, status.st_size, status.st_ino)
        known = _read.get(path)
        if known is None or known[0] != version:
            known = version, path.read_bytes()
            _read[path] = known
    except OSError as error:
        raise SecretUnavailable(
            f"{reference} cannot be read ({os.strerror(error.errno or 0)}): the service must have read access to it"
        ) from None
    if not known[1]:
        raise SecretUnavailable(f"{reference} is empty: write the secret into the file")
    return known[1]
