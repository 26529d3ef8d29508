"""Secrets of the lab: random, kept over restarts, each in a file that only its owner may read."""

import os
import secrets
from pathlib import Path


def write_secret(path: Path, text: str) -> None:
    """Write `text` to a file with mode 0600, replacing the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text)
    part.rename(path)


def ensure_secret(path: Path) -> str:
    """Return the secret in `path`; if the file does not exist, a random one of 256 bits is written first."""
    if not path.exists():
        write_secret(path, secrets.token_urlsafe(32))
    return path.read_text()
