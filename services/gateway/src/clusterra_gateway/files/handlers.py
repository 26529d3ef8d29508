"""The handlers of files: presigned URLs, lists, deletes, copies and renames."""

import asyncio
import secrets
from collections.abc import Iterator, Sequence
from datetime import timedelta

import structlog
from aiohttp import web
from clusterra_contracts.events import MAX_FACT_PATHS, FileFact, FileKind
from clusterra_contracts.identity import ClusterRef, now
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.keyspace import ACCOUNTS, file_event_key
from clusterra_gateway.accounts.records import Member, expiry
from clusterra_gateway.files.bucket_access import BucketAccess, Place
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.files.models import (
    DeletedFiles,
    DeleteFiles,
    File,
    FilePage,
    FolderQuery,
    MovedFile,
    MoveFile,
    NotDeleted,
    Owner,
    PathQuery,
    PresignedUrl,
    PresignedUrlRequest,
)
from clusterra_gateway.files.objects import (
    ListRequest,
    ObjectPage,
    copy_object,
    delete_objects,
    find,
    head,
    list_objects,
)
from clusterra_gateway.files.paths import AREAS, SHARED, FilePath
from clusterra_gateway.files.presigned import Bounds, Content, signed_get, signed_put
from clusterra_gateway.http.answers.responses import json_response, no_content
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest
from clusterra_gateway.http.requests.json_body import BodyBounds
from clusterra_gateway.http.requests.parameters import body, query
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

log = structlog.get_logger()

_KEPT = timedelta(days=2)
"""How long an item whose event was sent stays."""


class FileEvents:
    """Records in the cluster's history what people did to files.

    The bucket and the record share no transaction, so the event is written after the change. A gateway that dies
    between the two leaves no event. A written event is not lost, because the outbox of its item sends it.
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def tell(
        self,
        ref: ClusterRef,
        actor: Member,
        kind: FileKind,
        paths: Sequence[FilePath],
        destination: FilePath | None = None,
    ) -> None:
        """Tell that somebody did this to these files. Raises StoreUnavailable."""
        for some in _batches(paths):
            at, version = now(), secrets.token_hex(8)
            fact = FileFact(
                kind=kind,
                actor=actor.user,
                uid=actor.uid,
                paths=tuple(path.shown for path in some),
                destination="" if destination is None else destination.shown,
            )
            put = Put(ACCOUNTS, file_event_key(ref, version), {}, Absent(), expiry(at + _KEPT))
            await self._outbox.write(put, [cluster_event(ref, fact, version=version, at=at)])


def _batches(paths: Sequence[FilePath]) -> Iterator[Sequence[FilePath]]:
    for begin in range(0, len(paths), MAX_FACT_PATHS):
        yield paths[begin : begin + MAX_FACT_PATHS]


_MANY_PATHS = BodyBounds(4 * 1024 * 1024, 2000)
"""The bounds of a body with as many paths as may be deleted at once."""


FILES = f"{CLUSTER}/files"
reading = cluster_routes(reads=Needs("files:read"))
api = cluster_routes(changes=Needs("files:write", "member"))


class FileHandlers:
    """The handlers of files."""

    def __init__(self, buckets: Buckets, bounds: Bounds, events: FileEvents, once: AnswerOnce) -> None:
        self._buckets = buckets
        self._bounds = bounds
        self._events = events
        self._once = once

    @reading.post(
        "storage_presigned_url", f"{CLUSTER}/storage/presigned-url", body=PresignedUrlRequest, result=PresignedUrl
    )
    async def presign(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Makes a URL with which a client uploads (`PUT`) or downloads (`GET`) a file directly at the bucket.

        An upload states its size and its SHA-256. Both are signed: send them in the answered headers, and the bucket
        takes exactly these bytes. It needs the role `member` and the scope `files:write`; only admins upload to
        `shared/`. Larger files are uploaded in parts.
        """
        wanted = await body(request, PresignedUrlRequest)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        seconds = self._bounds.lifetime(wanted.expires_in_seconds)
        if wanted.method == "GET":
            if wanted.size is not None or wanted.sha256 is not None:
                raise InvalidRequest("a download has no size and no sha256", hint="leave them out")
            place = allowed.readable(wanted.path)
            signed = await signed_get(allowed.bucket, place.key, place.path.file_name, seconds)
        else:
            place = allowed.writable(wanted.path)
            if wanted.size is None or wanted.sha256 is None:
                raise InvalidRequest(
                    "an upload needs its size and its sha256",
                    hint="give the size in bytes, and the SHA-256 as sha256sum prints it or in base64",
                )
            content = Content(self._bounds.within(wanted.size), wanted.sha256)
            signed = await signed_put(allowed.bucket, place.key, content, seconds)
        return json_response(
            PresignedUrl(
                path=place.path.shown,
                method=signed.method,
                url=signed.url,
                headers=signed.headers,
                expires_at=signed.expires_at,
            )
        )

    @reading.get("files_list", FILES, query=FolderQuery, result=FilePage)
    async def list(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists a folder: the folders in it, and its files in the order of their names.

        Without a path it lists the areas: `scripts`, `data` and `outputs` are the caller's own, `shared` is for all. A
        cluster without storage has none.
        """
        wanted = query(request, FolderQuery)
        if not wanted.path:
            folders = AREAS if self._buckets.exist(ref) else ()
            areas = FilePage(
                path="", owner=_owner(caller.member), folders=folders, files=(), unreadable=0, next_cursor=None
            )
            return json_response(areas)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        folder = allowed.folder(wanted.path)
        listed = ListRequest(folder.key, wanted.recursive, wanted.limit, wanted.cursor)
        found = await list_objects(allowed.bucket, listed)
        return json_response(await asyncio.to_thread(_page, allowed, folder, found))

    @api.delete("files_delete", FILES, query=PathQuery)
    async def delete(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Deletes a file. Files of `shared/` are deleted by admins."""
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        place = allowed.writable(query(request, PathQuery).path)
        await head(allowed.bucket, place.key)
        if failed := await delete_objects(allowed.bucket, [place.key]):
            raise Conflict(f"the file was not deleted ({failed[place.key]})", hint="ask the operators about the bucket")
        await self._told(ref, caller, "file.deleted", [place])
        return no_content()

    @api.post("files_delete_many", f"{FILES}/delete", body=DeleteFiles, result=DeletedFiles)
    async def delete_many(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Deletes up to 1,000 files at once. One path that the caller may not delete refuses the whole request."""
        wanted = await body(request, DeleteFiles, bounds=_MANY_PATHS)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        places = list({place.key: place for place in map(allowed.writable, wanted.paths)}.values())
        failed = await delete_objects(allowed.bucket, [place.key for place in places])
        deleted = [place for place in places if place.key not in failed]
        await self._told(ref, caller, "file.deleted", deleted)
        return json_response(
            DeletedFiles(
                deleted=tuple(place.path.shown for place in deleted),
                failed=tuple(
                    NotDeleted(path=place.path.shown, reason=failed[place.key])
                    for place in places
                    if place.key in failed
                ),
            )
        )

    @api.post("files_copy", f"{FILES}/copy", parameters=(IDEMPOTENCY_KEY,), body=MoveFile, result=MovedFile)
    async def copy(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Copies a file within the bucket. So an admin gives everybody a file: to `shared/`."""
        wanted = await body(request, MoveFile)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        source, target = allowed.readable(wanted.source), allowed.writable(wanted.destination)

        async def act() -> MovedFile:
            made = await self._copied(allowed, source, target, overwrite=wanted.overwrite)
            await self._told(ref, caller, "file.copied", [source], target)
            return made

        return await self._once.answer(request, caller.owner_key, wanted, act, status=200)

    @api.post("files_rename", f"{FILES}/rename", parameters=(IDEMPOTENCY_KEY,), body=MoveFile, result=MovedFile)
    async def rename(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Gives a file another name or folder. The bucket copies it, then deletes the old name.

        After a failure between the two, both are there: send the request again with `overwrite`.
        """
        wanted = await body(request, MoveFile)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        source, target = allowed.writable(wanted.source), allowed.writable(wanted.destination)

        async def act() -> MovedFile:
            made = await self._copied(allowed, source, target, overwrite=wanted.overwrite)
            if failed := await delete_objects(allowed.bucket, [source.key]):
                raise Conflict(
                    f"the file was copied, but its old name could not be deleted ({failed[source.key]})",
                    hint="delete the old name",
                )
            await self._told(ref, caller, "file.renamed", [source], target)
            return made

        return await self._once.answer(request, caller.owner_key, wanted, act, status=200)

    async def _copied(self, allowed: BucketAccess, source: Place, target: Place, *, overwrite: bool) -> MovedFile:
        if source.key == target.key:
            raise InvalidRequest("the source and the destination are the same", hint="choose another destination")
        known = await head(allowed.bucket, source.key)
        if not overwrite and await find(allowed.bucket, target.key) is not None:
            raise Conflict(f"there is a file {target.path.shown}", hint="choose another name, or send overwrite: true")
        await copy_object(allowed.bucket, source.key, target.key, known)
        return MovedFile(path=target.path.shown, size=known.size)

    async def _told(
        self, ref: ClusterRef, caller: Caller, kind: FileKind, places: Sequence[Place], target: Place | None = None
    ) -> None:
        log.info("files_changed", kind=kind, cluster=ref.cluster, count=len(places))
        destination = None if target is None else target.path
        await self._events.tell(ref, caller.member, kind, [place.path for place in places], destination)


def _page(allowed: BucketAccess, folder: Place, found: ObjectPage) -> FilePage:
    # An object whose key ends with a slash marks an empty folder, as some programs make them.
    objects = {each.key: each for each in found.objects if not each.key.endswith("/")}
    files, unreadable_files = allowed.shown(objects)
    folders, unreadable_folders = allowed.shown(prefix.removesuffix("/") for prefix in found.prefixes)
    return FilePage(
        path=folder.path.shown,
        owner=None if folder.path.area == SHARED else _owner(allowed.person.member),
        folders=tuple(path.shown for path in folders.values()),
        files=tuple(
            File(path=path.shown, size=each.size, modified_at=each.modified_at, etag=each.etag)
            for key, path in files.items()
            for each in (objects[key],)
        ),
        unreadable=found.unreadable + unreadable_files + unreadable_folders,
        next_cursor=found.cursor,
    )


def _owner(member: Member) -> Owner:
    return Owner(id=member.id, name=member.display_name or member.user)
