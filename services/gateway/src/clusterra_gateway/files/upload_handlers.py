"""The handlers of uploads in parts."""

from aiohttp import web
from clusterra_contracts.identity import ClusterRef

from clusterra_gateway.files.bucket_access import BucketAccess
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.files.handlers import FILES
from clusterra_gateway.files.models import (
    UPLOAD_ID,
    BeginUpload,
    BegunUpload,
    CompletedUpload,
    CompleteUpload,
    PartsQuery,
    PartUrl,
    PartUrls,
    PathQuery,
    SignParts,
    Upload,
    UploadedParts,
    UploadedPartView,
    Uploads,
    UploadsQuery,
)
from clusterra_gateway.files.presigned import Bounds, Content, Part, signed_parts
from clusterra_gateway.files.uploads import abort, begin, complete, list_parts, part_bytes, unfinished
from clusterra_gateway.http.answers.responses import json_response, no_content
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.json_body import BodyBounds
from clusterra_gateway.http.requests.parameters import body, path_id, query
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, cluster_routes

_MANY_PARTS = BodyBounds(2 * 1024 * 1024, 40_000)
UPLOADS = f"{FILES}/uploads"
UPLOAD = f"{UPLOADS}/{{upload_id}}"
api = cluster_routes(UPLOAD_ID, changes=Needs("files:write", "member"))


class UploadHandlers:
    """The handlers of uploads in parts."""

    def __init__(self, buckets: Buckets, bounds: Bounds, once: AnswerOnce) -> None:
        self._buckets = buckets
        self._bounds = bounds
        self._once = once

    @api.post(
        "uploads_begin",
        UPLOADS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=BeginUpload,
        result=BegunUpload,
        names=(Named(UPLOAD, "/upload_id"),),
    )
    async def begin(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Begins an upload in parts, for a large file or one that shall survive a break.

        The answer says how to cut the file. The upload stays until it is completed or aborted, or until a rule of the
        bucket removes it.
        """
        wanted = await body(request, BeginUpload)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        place, size = allowed.writable(wanted.path), self._bounds.within(wanted.size)

        async def act() -> BegunUpload:
            part = part_bytes(size)
            return BegunUpload(
                upload_id=await begin(allowed.bucket, place.key),
                path=place.path.shown,
                part_size=part,
                part_count=-(-size // part),
            )

        return await self._once.answer(request, caller.owner_key, wanted, act)

    @api.get(
        "uploads_list", UPLOADS, query=UploadsQuery, result=Uploads, names=(Named(UPLOAD, "/uploads/0/upload_id"),)
    )
    async def list(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists uploads to a folder, or to one file, that were neither completed nor aborted."""
        wanted = query(request, UploadsQuery)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        folder = allowed.folder(wanted.path)
        allowed.require_write(folder.path)
        found = await unfinished(allowed.bucket, folder.key, wanted.limit)
        paths, _ = allowed.shown(each.key for each in found)
        return json_response(
            Uploads(
                uploads=tuple(
                    Upload(upload_id=each.id, path=paths[each.key].shown, begun_at=each.begun_at)
                    for each in found
                    if each.key in paths
                )
            )
        )

    @api.get("uploads_parts", f"{UPLOAD}/parts", query=PartsQuery, result=UploadedParts)
    async def parts(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Lists the parts that the bucket has. To go on after a break, send the others."""
        wanted, upload = query(request, PartsQuery), path_id(request, UPLOAD_ID)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        place = allowed.writable(wanted.path)
        page = await list_parts(allowed.bucket, place.key, upload, after=wanted.after, limit=wanted.limit)
        return json_response(
            UploadedParts(
                path=place.path.shown,
                upload_id=upload,
                parts=tuple(UploadedPartView(**each.model_dump()) for each in page.parts),
                next_after=page.after,
            )
        )

    @api.post("uploads_sign_parts", f"{UPLOAD}/part-urls", body=SignParts, result=PartUrls)
    async def sign_parts(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Makes the URLs of up to 100 parts of an upload that was begun.

        The size and the SHA-256 of each part are signed, as for a whole file.
        """
        wanted, upload = await body(request, SignParts), path_id(request, UPLOAD_ID)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        place = allowed.writable(wanted.path)
        parts = [Part(each.number, Content(each.size, each.sha256)) for each in wanted.parts]
        if len({part.number for part in parts}) < len(parts):
            raise InvalidRequest("a part is named twice", hint="name each number once")
        seconds = self._bounds.lifetime(wanted.expires_in_seconds)
        # Signing asks nobody. An upload that is gone, or another's, is told here and not at each part.
        await list_parts(allowed.bucket, place.key, upload, limit=1)
        signed = await signed_parts(allowed.bucket, place.key, upload, parts, seconds)
        urls = tuple(
            PartUrl(number=part.number, url=each.url, headers=each.headers)
            for part, each in zip(parts, signed, strict=True)
        )
        return json_response(PartUrls(urls=urls, expires_at=signed[0].expires_at))

    @api.post(
        "uploads_complete",
        f"{UPLOAD}/complete",
        parameters=(IDEMPOTENCY_KEY,),
        body=CompleteUpload,
        result=CompletedUpload,
    )
    async def complete(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Makes the file of the parts that the bucket has.

        It is a conflict while parts are missing, while they have another size together than the file, or while they
        are not the `parts` of the request.
        """
        wanted, upload = await body(request, CompleteUpload, bounds=_MANY_PARTS), path_id(request, UPLOAD_ID)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        place, size = allowed.writable(wanted.path), self._bounds.within(wanted.size)
        expected = None if wanted.parts is None else {part.number: part.sha256 for part in wanted.parts}
        if expected is not None and len(expected) < len(wanted.parts or ()):
            raise InvalidRequest("a part is named twice", hint="name each number once")

        async def act() -> CompletedUpload:
            etag = await complete(allowed.bucket, place.key, upload, size, expected)
            return CompletedUpload(path=place.path.shown, size=size, etag=etag)

        return await self._once.answer(request, caller.owner_key, wanted, act, status=200)

    @api.delete("uploads_abort", UPLOAD, query=PathQuery)
    async def abort(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Ends an upload and forgets its parts."""
        wanted, upload = query(request, PathQuery), path_id(request, UPLOAD_ID)
        allowed = await BucketAccess.of(self._buckets, caller, ref)
        await abort(allowed.bucket, allowed.writable(wanted.path).key, upload)
        return no_content()
