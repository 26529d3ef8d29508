"""`edge.<tenant>.<cluster>.folder` and `.file`: reading the shared folder at the edge with a person's own rights."""

from typing import Annotated, ClassVar, Literal

from pydantic import Base64Bytes, FailFast, Field, StringConstraints

from clusterra_contracts.identity import MAX_GROUPS, Moment, PosixId, SlurmUser, Wire

MAX_ENTRIES = 1000
"""The most entries of a page: with names of 255 bytes it stays below NATS' payload limit of 1 MiB."""
FILE_CHUNK_BYTES = 256 * 1024
"""The most bytes of one answer: in base64 they stay below that limit, too."""

LocalPath = Annotated[str, StringConstraints(max_length=4096, pattern=r"^[^\x00]*$")]
"""A path relative to the shared folder, without a slash at either end; empty for the folder itself."""


class LocalUser(Wire):
    """As whom the edge opens files. The ids of the system are left out: no request opens a file as a daemon."""

    uid: PosixId
    gid: PosixId
    groups: Annotated[tuple[PosixId, ...], Field(max_length=MAX_GROUPS)] = ()

    @classmethod
    def of(cls, user: SlurmUser) -> "LocalUser":
        """The user of a job, without the groups that are the system's."""
        return cls(uid=user.uid, gid=user.gid, groups=tuple(gid for gid in user.groups if gid >= 1000)[:MAX_GROUPS])


class ListFolder(Wire):
    """Read a page of a folder, in the order of the names' bytes, from the one after `after` on."""

    schema_name: ClassVar[str] = "edge.folder.v1"

    user: LocalUser
    path: LocalPath = ""
    after: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2}){0,255}$")] = ""
    """The bytes of a name in hexadecimal digits."""
    limit: Annotated[int, Field(ge=1, le=MAX_ENTRIES)] = MAX_ENTRIES


class FolderEntry(Wire):
    """What a folder has. `other`: a link, a device, a socket or a pipe, which nothing here opens."""

    name: str
    kind: Literal["file", "folder", "other"]
    size: Annotated[int, Field(ge=0)]
    modified_at: Moment


class FolderPage(Wire):
    """A page of a folder. `after` reads on, and is None at the end."""

    schema_name: ClassVar[str] = "edge.folder-page.v1"

    entries: Annotated[tuple[FolderEntry, ...], FailFast()]
    unreadable: int = 0
    """How many entries of the page have names that are not UTF-8, or are gone already."""
    after: str | None = None


class ReadFile(Wire):
    """Read a part of a file."""

    schema_name: ClassVar[str] = "edge.file.v1"

    user: LocalUser
    path: LocalPath
    offset: Annotated[int, Field(ge=0, lt=2**63)] = 0
    limit: Annotated[int, Field(ge=1, le=FILE_CHUNK_BYTES)] = FILE_CHUNK_BYTES


class FileChunk(Wire):
    """Bytes `offset` to `offset + len(data)` of a file that had `size` bytes when it was read."""

    schema_name: ClassVar[str] = "edge.file-chunk.v1"

    offset: int
    size: int
    modified_ns: int
    """Nanoseconds since 1970: a file that changes while it is read in parts is told by it."""
    data: Base64Bytes
