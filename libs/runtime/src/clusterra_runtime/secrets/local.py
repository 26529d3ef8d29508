"""Secrets that the process has itself, in files and environment variables, read at once wherever they are needed."""

from collections.abc import Sequence
from pathlib import Path

from clusterra_contracts.registry import SecretReference

from clusterra_runtime.secrets.environment import read_variable
from clusterra_runtime.secrets.files import read_file
from clusterra_runtime.secrets.reference import (
    EnvironmentSecret,
    FileSecret,
    InvalidReference,
    SecretUnavailable,
    parse,
)

type LocalSecret = FileSecret | EnvironmentSecret


def read_secret(reference: SecretReference) -> bytes:
    """Returns the value behind a `file:` or `env:` reference, stripped of white space. Raises SecretUnavailable."""
    if not (value := read_binary_secret(reference).strip()):
        raise SecretUnavailable(f"{reference} is empty: store the secret there")
    return value


def read_binary_secret(reference: SecretReference) -> bytes:
    """Returns the value unstripped, for secrets in which every byte counts. Raises SecretUnavailable."""
    source = parse(reference)
    if not isinstance(source, FileSecret | EnvironmentSecret):
        raise InvalidReference(f"{reference} cannot be used here: mount the secret as a file, file:/path")
    return read_local(source)


def read_local(source: LocalSecret, folders: Sequence[Path] | None = None) -> bytes:
    """Returns the value of a secret that the process has itself, below these `folders`. Raises SecretUnavailable."""
    return read_file(source.path, folders) if isinstance(source, FileSecret) else read_variable(source)
