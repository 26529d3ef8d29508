"""The routes of the shared folder: pages of its folders, and its files.

The edge opens everything as the caller's user. Here is only checked what no path can be.
"""

from functools import partial
from http import HTTPStatus
from typing import Annotated, Literal

from aiohttp import web
from clusterra_contracts.identity import ClusterRef, Moment
from clusterra_contracts.rpc.edge_folders import (
    FILE_CHUNK_BYTES,
    MAX_ENTRIES,
    ListFolder,
    LocalUser,
    ReadFile,
)
from clusterra_contracts.rpc.reply import ErrorKind
from clusterra_runtime.nats.rpc import RpcFailed
from pydantic import Field, StringConstraints

from clusterra_gateway.bus.requests import EdgeRequests
from clusterra_gateway.http.answers.responses import NO_STORE, ResponseBody, json_response
from clusterra_gateway.http.answers.streams import CutOff, read_on, send
from clusterra_gateway.http.requests.errors import InvalidRequest, NotFound
from clusterra_gateway.http.requests.long_transfers import counted_transfer
from clusterra_gateway.http.requests.parameters import RANGE, Query, byte_range, query
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

FOLDERS = f"{CLUSTER}/folders"
MAX_DEPTH = 64

_HIDDEN: frozenset[ErrorKind] = frozenset({"not_found", "forbidden", "rejected"})
"""Not told apart: that a folder of somebody else exists is theirs to know."""

SharedPath = Annotated[str, StringConstraints(max_length=4096)]


api = cluster_routes(reads=Needs("files:read"))


class SharedFolderQuery(Query):
    """Which page of which folder; without a path, of the shared folder itself."""

    path: SharedPath = ""
    """Names with slashes between them, such as `run1/results`."""
    limit: Annotated[int, Field(ge=1, le=MAX_ENTRIES)] = MAX_ENTRIES
    cursor: Annotated[str, StringConstraints(pattern=r"^([0-9a-f]{2}){1,255}$")] | None = None


class SharedFileQuery(Query):
    """Which file."""

    path: SharedPath


class SharedEntry(ResponseBody):
    """What a folder has. `other`: a link, a device, a socket or a pipe, which cannot be opened here."""

    name: str
    kind: Literal["file", "folder", "other"]
    size: int
    modified_at: Moment


class SharedFolderPage(ResponseBody):
    """A page of a folder, in the order of the names' bytes. `next_cursor` reads on; null at the end.

    `unreadable` counts entries whose names are not UTF-8, or that were gone before they were looked at.
    """

    path: str
    entries: tuple[SharedEntry, ...]
    unreadable: int
    next_cursor: str | None


class Folders:
    """The handlers of the shared folder."""

    def __init__(self, edge: EdgeRequests) -> None:
        self._edge = edge

    @api.get("folders_list", FOLDERS, query=SharedFolderQuery, result=SharedFolderPage)
    async def list(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists a folder of the cluster's shared folder, as the caller's user may see it.

        What does not exist and what the user may not list is the same 404. 409 where the edge has no right to read as
        the user. Links are listed, and never followed.
        """
        wanted = query(request, SharedFolderQuery)
        path = checked_path(wanted.path)
        asked = ListFolder(
            user=LocalUser.of(caller.slurm_user), path=path, after=wanted.cursor or "", limit=wanted.limit
        )
        try:
            with counted_transfer(request):  # a large folder of a slow file server takes its time
                page = await self._edge.folder(ref, asked)
        except RpcFailed as failed:
            raise _hidden(failed) from None
        entries = tuple(SharedEntry(**entry.model_dump()) for entry in page.entries)
        return json_response(
            SharedFolderPage(path=path, entries=entries, unreadable=page.unreadable, next_cursor=page.after)
        )

    @api.get(
        "folders_content",
        f"{FOLDERS}/content",
        ranges=True,
        parameters=(RANGE,),
        query=SharedFileQuery,
        result="application/octet-stream",
    )
    async def content(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns a file of the shared folder, as the caller's user may read it, or a range of its bytes.

        It is meant for a look at a file: the bytes pass the gateway. Stage large files out to the bucket. 409 where the
        edge has no right to read as the user.
        """
        path = checked_path(query(request, SharedFileQuery).path)
        wanted = byte_range(request)
        asked = ReadFile(user=LocalUser.of(caller.slurm_user), path=path, limit=1)
        try:
            first = await self._edge.file(ref, asked)
        except RpcFailed as failed:
            raise _hidden(failed) from None
        begin, end = (0, first.size) if wanted is None else wanted.within(first.size)
        response = web.StreamResponse(
            headers={
                **NO_STORE,
                "Accept-Ranges": "bytes",
                # Never shown as a page: a file of HTML would run its scripts in the gateway's origin.
                "Content-Disposition": "attachment",
                "X-Content-Type-Options": "nosniff",
            }
        )
        response.content_type = "application/octet-stream"
        response.content_length = end - begin
        if wanted is not None:
            response.set_status(HTTPStatus.PARTIAL_CONTENT)
            response.headers["Content-Range"] = f"bytes {begin}-{end - 1}/{first.size}"
        read = partial(self._bytes, ref, asked, first.modified_ns)
        return await send(request, response, read_on(request, range(begin, end), FILE_CHUNK_BYTES, read))

    async def _bytes(self, ref: ClusterRef, asked: ReadFile, modified_ns: int, offset: int, limit: int) -> bytes:
        """Some bytes of a file. Raises RpcFailed, and CutOff for a file that changes."""
        chunk = await self._edge.file(ref, asked.model_copy(update={"offset": offset, "limit": limit}))
        if not chunk.data or chunk.modified_ns != modified_ns:
            raise CutOff("the file was changed")
        return chunk.data


def checked_path(text: str) -> str:
    """The path of a folder or a file, relative to the shared folder. Raises InvalidRequest."""
    path = text.removesuffix("/")
    names = path.split("/") if path else []
    if len(names) > MAX_DEPTH or "\0" in path or any(name in ("", ".", "..") for name in names):
        raise InvalidRequest(
            "no file of the shared folder has this path", hint="paths look like run1/results: without ., .. and //"
        )
    return path


def _hidden(failed: RpcFailed) -> RpcFailed | NotFound:
    if failed.error.kind not in _HIDDEN:
        return failed
    return NotFound("there is no such file or folder, or your user may not read it", hint="list the folder above it")
