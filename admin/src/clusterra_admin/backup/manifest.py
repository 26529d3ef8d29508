"""The manifest of a backup: what it holds, with checksums. A folder without one is not a whole backup."""

import os
from pathlib import Path
from typing import Any, Literal

from clusterra_contracts.identity import Moment
from pydantic import BaseModel, ConfigDict, Field, ValidationError

FILE = "manifest.json"
type Schema = Literal["clusterra.backup.v1"]
SCHEMA: Schema = "clusterra.backup.v1"


class BackupInvalid(Exception):
    """A folder does not hold a whole and unchanged backup that this version reads. The text says what to do."""


class File(BaseModel):
    """A file of lines of JSON, compressed with gzip. Path, compressed bytes and their SHA-256, number of lines."""

    model_config = ConfigDict(frozen=True)

    path: str
    bytes: int
    sha256: str
    lines: int


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True)

    file: File


class Table(_Part):
    """A table: its items in DynamoDB's own JSON (`{"Item": {...}}`), in no order."""

    name: str
    """Without the installation's prefix."""
    definition: dict[str, Any]
    """Keys, indexes and expiry, as DynamoDB described them."""


class Stream(_Part):
    """A stream or a bucket's stream: its messages with subject, sequence, time, headers and body (base64)."""

    name: str
    config: dict[str, Any]
    """As JetStream described it."""
    first_sequence: int
    last_sequence: int


class Manifest(BaseModel):
    """The whole backup."""

    model_config = ConfigDict(frozen=True)

    schema_name: Schema = SCHEMA
    id: str
    """Unique for each backup."""
    version: str
    """The version of `clusterra-admin` that made it."""
    contracts_generation: int
    began_at: Moment
    ended_at: Moment
    table_prefix: str
    nats_server: str = ""
    highest_fence: int = 0
    """The highest fence that a fleet, a desired state or an edge-agent had."""
    tables: tuple[Table, ...]
    streams: tuple[Stream, ...]
    left_out: dict[str, str] = Field(default_factory=dict)
    """Stream -> why it is not in the backup."""

    @property
    def parts(self) -> tuple[_Part, ...]:
        """Everything that has a file."""
        return (*self.tables, *self.streams)


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest, the last file of a backup, whole or not at all."""
    partial = folder / f"{FILE}.partial"
    with partial.open("w") as file:
        file.write(manifest.model_dump_json(indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.rename(folder / FILE)


def read(folder: Path) -> Manifest:
    """Read the manifest of a folder. Raises BackupInvalid."""
    try:
        manifest = Manifest.model_validate_json((folder / FILE).read_bytes())
    except FileNotFoundError:
        raise BackupInvalid(
            f"{folder} has no {FILE}, so it is not a whole backup: choose another, or make one anew"
        ) from None
    except OSError as error:
        raise BackupInvalid(f"{folder / FILE} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise BackupInvalid(
            f"{folder / FILE} is not a manifest of {SCHEMA}: use the clusterra-admin that made the backup"
        ) from error
    for part in manifest.parts:
        if not (folder / part.file.path).resolve().is_relative_to(folder.resolve()):
            raise BackupInvalid(f"{part.file.path} is outside {folder}: this is not a manifest of ours")
    return manifest
