"""The bodies and queries of requests for files, and of their answers."""

from typing import Annotated, Literal

from clusterra_contracts.identity import Moment
from pydantic import Field, StrictBool, StringConstraints

from clusterra_gateway.files.presigned import MAX_PUT_BYTES, Sha256
from clusterra_gateway.files.uploads import MAX_PARTS
from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import Body, NotBoolean, Parameter, Query
from clusterra_gateway.settings import MAX_URL_SECONDS

MAX_DELETED = 1000
MAX_SIGNED_PARTS = 100
MAX_LISTED_UPLOADS = 1000

PathText = Annotated[str, StringConstraints(max_length=4096)]
"""A path as a client writes it; `paths` checks it."""
UPLOAD_ID = Parameter(
    "upload_id", "path", r"^[A-Za-z0-9._~+=-]{1,1024}$", "The id of an upload, as `POST .../files/uploads` answered it."
)


class PresignedUrlRequest(Body):
    """The request for a URL that uploads (`PUT`) or downloads (`GET`) a file."""

    path: PathText
    """`<area>/<name>`, such as `data/input.csv`."""
    method: Literal["PUT", "GET"] = "PUT"
    size: Annotated[int, Field(ge=0, le=MAX_PUT_BYTES), NotBoolean] | None = None
    """Of an upload: its size in bytes."""
    sha256: Sha256 | None = None
    """Of an upload: its SHA-256, in hexadecimal digits or base64."""
    expires_in_seconds: Annotated[int, Field(ge=1, le=MAX_URL_SECONDS), NotBoolean] | None = None


class PresignedUrl(ResponseBody):
    """A URL of the bucket. Send a request with this method and exactly these headers; it needs no other credential."""

    path: str
    method: Literal["PUT", "GET"]
    url: str
    headers: dict[str, str]
    expires_at: Moment


class FolderQuery(Query):
    """Which page of which folder. Without a path, the areas."""

    path: PathText = ""
    recursive: bool = False
    """Whether to list the files in folders of the folder, too."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 1000
    cursor: Annotated[str, StringConstraints(min_length=1, max_length=4096)] | None = None


class File(ResponseBody):
    """A file in a list."""

    path: str
    size: int
    modified_at: Moment
    etag: str


class Owner(ResponseBody):
    """Whose files they are: a member's id, and the name to show."""

    id: str
    name: str


class FilePage(ResponseBody):
    """A page of a folder. `next_cursor` reads on; null at the end.

    `owner` is null for the area `shared`. `unreadable` counts objects whose names no path can have: other programs put
    them there.
    """

    path: str
    owner: Owner | None
    folders: tuple[str, ...]
    files: tuple[File, ...]
    unreadable: int
    next_cursor: str | None


class PathQuery(Query):
    """A file."""

    path: PathText


class DeleteFiles(Body):
    """The files to delete."""

    paths: Annotated[tuple[PathText, ...], Field(min_length=1, max_length=MAX_DELETED)]


class NotDeleted(ResponseBody):
    """A file that was not deleted, and S3's word for the reason."""

    path: str
    reason: str


class DeletedFiles(ResponseBody):
    """What was deleted, and what was not. A file that does not exist counts as deleted."""

    deleted: tuple[str, ...]
    failed: tuple[NotDeleted, ...]


class MoveFile(Body):
    """The request for a copy, or for another name."""

    source: PathText
    destination: PathText
    overwrite: StrictBool = False
    """Whether a file at the destination is replaced; else it is a conflict."""


class MovedFile(ResponseBody):
    """The file at its destination."""

    path: str
    size: int


class BeginUpload(Body):
    """The request for an upload in parts."""

    path: PathText
    size: Annotated[int, Field(ge=1), NotBoolean]


class BegunUpload(ResponseBody):
    """An upload. Send `part_count` parts of `part_size` bytes, the last of which may be smaller."""

    upload_id: str
    path: str
    part_size: int
    part_count: int


class UploadsQuery(Query):
    """The folder, or the file, whose unfinished uploads to list."""

    path: PathText
    limit: Annotated[int, Field(ge=1, le=MAX_LISTED_UPLOADS)] = 100


class Upload(ResponseBody):
    """An upload that was neither completed nor aborted."""

    upload_id: str
    path: str
    begun_at: Moment


class Uploads(ResponseBody):
    """Unfinished uploads."""

    uploads: tuple[Upload, ...]


class PartsQuery(PathQuery):
    """Which parts of an upload: those after a number."""

    after: Annotated[int, Field(ge=0, le=MAX_PARTS)] = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 1000


class UploadedPartView(ResponseBody):
    """A part that the bucket has."""

    number: int
    size: int
    etag: str
    sha256: str | None


class UploadedParts(ResponseBody):
    """The parts that the bucket has, in their order. `next_after` reads on; null at the end."""

    path: str
    upload_id: str
    parts: tuple[UploadedPartView, ...]
    next_after: int | None


class WantedPart(Body):
    """A part to send."""

    number: Annotated[int, Field(ge=1, le=MAX_PARTS), NotBoolean]
    size: Annotated[int, Field(ge=1, le=MAX_PUT_BYTES), NotBoolean]
    sha256: Sha256


class SignParts(Body):
    """The request for the URLs of parts."""

    path: PathText
    parts: Annotated[tuple[WantedPart, ...], Field(min_length=1, max_length=MAX_SIGNED_PARTS)]
    expires_in_seconds: Annotated[int, Field(ge=1, le=MAX_URL_SECONDS), NotBoolean] | None = None


class PartUrl(ResponseBody):
    """The URL of a part, and the headers that its PUT must have."""

    number: int
    url: str
    headers: dict[str, str]


class PartUrls(ResponseBody):
    """The URLs of parts."""

    urls: tuple[PartUrl, ...]
    expires_at: Moment


class SentPart(Body):
    """A part that the client has sent."""

    number: Annotated[int, Field(ge=1, le=MAX_PARTS), NotBoolean]
    sha256: Sha256


class CompleteUpload(Body):
    """The request to make a file of the parts. `size` is that of the whole file."""

    path: PathText
    size: Annotated[int, Field(ge=1), NotBoolean]
    parts: Annotated[tuple[SentPart, ...], Field(min_length=1, max_length=MAX_PARTS)] | None = None
    """The parts of which the file is made: it is a conflict if the bucket has others. Without them, what is there."""


class CompletedUpload(ResponseBody):
    """The file."""

    path: str
    size: int
    etag: str
