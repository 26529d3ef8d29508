"""`edge.<tenant>.<cluster>.stage`: copying between the bucket and the shared folder, at the edge, as a job's user.

The central side decides what is copied and signs a URL for each object; the edge copies the bytes. A request has an id.
While its work runs, the same request again waits for its end, and after the agent has died it begins the work anew:
every work may be repeated.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Discriminator, FailFast, Field, StringConstraints

from clusterra_contracts.identity import Wire
from clusterra_contracts.rpc.edge_folders import LocalPath, LocalUser

MAX_PATTERNS = 32
MAX_FOUND = 200
"""The most files of a page of matches. Of long paths a page has fewer, so that it fits into a message."""
MAX_FILES = 50
"""The most files of one work: the edge has all of them open at once."""
MAX_PARTS = 16
"""The most parts of one file in one work."""
MAX_WAIT_SECONDS = 20.0
MAX_TEXT = 300

_REFUSED_PARTS = frozenset({"", ".", ".."})


def _relative(text: str) -> str:
    if any(part in _REFUSED_PARTS for part in text.split("/")) or "\0" in text or "\\" in text:
        raise ValueError("a path is relative to the job's folder, without empty names, `.`, `..` and backslashes")
    return text


RelativePath = Annotated[str, StringConstraints(min_length=1, max_length=1024), AfterValidator(_relative)]
"""A file's path relative to the job's working directory."""


def _pattern(text: str) -> str:
    _relative(text)
    for part in text.split("/"):
        if "**" in part and part != "**":
            raise ValueError("`**` stands for folders, so it is a whole name: `results/**/*.txt`")
    if text.count("*") > 16:
        raise ValueError("a pattern has at most 16 stars")
    return text


PathPattern = Annotated[RelativePath, AfterValidator(_pattern)]
"""A path with `*`, `?` and `[abc]` within names, and `**` for any folders, also none."""


class MakeFolder(Wire):
    """Make the job's working directory, with the folders on the way, unless it exists."""

    work: Literal["make"] = "make"
    folder: LocalPath


class FindFiles(Wire):
    """Find the regular files that match, in the order of their paths' bytes, after the path `after`."""

    work: Literal["find"] = "find"
    folder: LocalPath
    """The job's working directory."""
    patterns: Annotated[tuple[PathPattern, ...], Field(min_length=1, max_length=MAX_PATTERNS)]
    after: str = ""
    limit: Annotated[int, Field(ge=1, le=MAX_FOUND)] = MAX_FOUND


class LocalFile(Wire):
    """A file as it was found. One that has changed since is not copied."""

    path: RelativePath
    size: Annotated[int, Field(ge=0)]
    modified_ns: int


class FoundFile(LocalFile):
    """A match of a pattern, by the pattern's place in the request."""

    pattern: Annotated[int, Field(ge=0)]
    below: RelativePath
    """Its path below the names of the pattern that match only themselves, such as `b/c.txt` of `a/**`."""


class PartRange(Wire):
    """A part of a file, in bytes."""

    offset: Annotated[int, Field(ge=0)]
    length: Annotated[int, Field(ge=0)]


class FileParts(LocalFile):
    """A file, and the parts of it whose SHA-256 is wanted."""

    parts: Annotated[tuple[PartRange, ...], Field(min_length=1, max_length=MAX_PARTS)]


class DigestFiles(Wire):
    """Compute the SHA-256 of parts of files."""

    work: Literal["digest"] = "digest"
    folder: LocalPath
    files: Annotated[tuple[FileParts, ...], Field(min_length=1, max_length=MAX_FILES)]


class SignedPart(PartRange):
    """A part, and the request that uploads it. The URL is a secret: whoever has it can use it."""

    url: str = Field(repr=False)
    headers: dict[str, str] = Field(repr=False)


class FileUpload(LocalFile):
    """A file, and the parts of it to upload."""

    parts: Annotated[tuple[SignedPart, ...], Field(min_length=1, max_length=MAX_PARTS)]


class SendFiles(Wire):
    """Upload parts of files."""

    work: Literal["send"] = "send"
    folder: LocalPath
    files: Annotated[tuple[FileUpload, ...], Field(min_length=1, max_length=MAX_FILES)]


class FileDownload(Wire):
    """An object to download, and the file that it becomes."""

    path: RelativePath
    url: str = Field(repr=False)
    size: Annotated[int, Field(ge=0)]
    etag: str


class FetchFiles(Wire):
    """Download objects. Folders on the way are made; a file of the same name is replaced when the new one is whole."""

    work: Literal["fetch"] = "fetch"
    folder: LocalPath
    files: Annotated[tuple[FileDownload, ...], Field(min_length=1, max_length=MAX_FILES)]


StagingWork = Annotated[MakeFolder | FindFiles | DigestFiles | SendFiles | FetchFiles, Discriminator("work")]


class Stage(Wire):
    """Do this work as a user, and wait up to `wait_seconds` for its end."""

    schema_name: ClassVar[str] = "edge.stage.v1"

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
    user: LocalUser
    work: StagingWork
    wait_seconds: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS)] = 0.0


class FileSums(Wire):
    """The SHA-256 of the wanted parts of a file, in base64 and in their order."""

    path: str
    sha256: Annotated[tuple[str, ...], FailFast()]


class StagingProblem(Wire):
    """Why a file was not copied. One bad file is one bad file: the others are."""

    path: str
    detail: Annotated[str, StringConstraints(max_length=MAX_TEXT)]
    transient: bool = False
    """Whether trying again may help."""
    outage: bool = False
    """Whether the bucket does not answer or is overloaded, which is no fault of the file."""


class Staged(Wire):
    """How far a work is. While it is `running`, only `moved_bytes` is told."""

    schema_name: ClassVar[str] = "edge.staged.v1"

    state: Literal["running", "done"]
    moved_bytes: int = 0
    found: Annotated[tuple[FoundFile, ...], FailFast()] = ()
    after: str | None = None
    """Where `find` goes on; None at the end."""
    sums: Annotated[tuple[FileSums, ...], FailFast()] = ()
    copied: Annotated[tuple[str, ...], FailFast()] = ()
    """The paths of the files whose bytes are all copied."""
    problems: Annotated[tuple[StagingProblem, ...], FailFast()] = ()
