"""The routes of files."""

from functools import partial

from clusterra_gateway.files.bounds import Bounds
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.files.file_events import FileEvents
from clusterra_gateway.files.handlers import FileHandlers
from clusterra_gateway.files.models import (
    UPLOAD_ID,
    BeginUpload,
    BegunUpload,
    CompletedUpload,
    CompleteUpload,
    DeletedFiles,
    DeleteFiles,
    FilePage,
    FolderQuery,
    MovedFile,
    MoveFile,
    PartsQuery,
    PartUrls,
    PathQuery,
    PresignedUrl,
    PresignedUrlRequest,
    SignParts,
    UploadedParts,
    Uploads,
    UploadsQuery,
)
from clusterra_gateway.files.upload_handlers import UploadHandlers
from clusterra_gateway.http.route import Named, Route
from clusterra_gateway.idempotency.answer_once import AnswerOnce
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.identity.access import Access
from clusterra_gateway.identity.private_route import CLUSTER, CLUSTER_ID, ClusterRoute

FILES = f"{CLUSTER}/files"
UPLOADS = f"{FILES}/uploads"
UPLOAD = f"{UPLOADS}/{{upload_id}}"


def routes(access: Access, buckets: Buckets, bounds: Bounds, events: FileEvents, once: AnswerOnce) -> tuple[Route, ...]:
    """All routes of this room."""
    files, uploads = FileHandlers(buckets, bounds, events, once), UploadHandlers(buckets, bounds, once)
    read = partial(ClusterRoute, access=access, scope="files:read")
    write = partial(ClusterRoute, access=access, scope="files:write", role="member")
    of_cluster, of_upload = (CLUSTER_ID,), (CLUSTER_ID, UPLOAD_ID)
    once_parameters, once_of_upload = (*of_cluster, IDEMPOTENCY_KEY), (*of_upload, IDEMPOTENCY_KEY)
    return (
        read(
            "storage_presigned_url",
            "POST",
            f"{CLUSTER}/storage/presigned-url",
            files.presign,
            parameters=of_cluster,
            body=PresignedUrlRequest,
            result=PresignedUrl,
        ),
        read("files_list", "GET", FILES, files.list, parameters=of_cluster, query=FolderQuery, result=FilePage),
        write("files_delete", "DELETE", FILES, files.delete, parameters=of_cluster, query=PathQuery, status=204),
        write(
            "files_delete_many",
            "POST",
            f"{FILES}/delete",
            files.delete_many,
            parameters=of_cluster,
            body=DeleteFiles,
            result=DeletedFiles,
        ),
        write(
            "files_copy",
            "POST",
            f"{FILES}/copy",
            files.copy,
            parameters=once_parameters,
            body=MoveFile,
            result=MovedFile,
        ),
        write(
            "files_rename",
            "POST",
            f"{FILES}/rename",
            files.rename,
            parameters=once_parameters,
            body=MoveFile,
            result=MovedFile,
        ),
        write(
            "uploads_begin",
            "POST",
            UPLOADS,
            uploads.begin,
            status=201,
            parameters=once_parameters,
            body=BeginUpload,
            result=BegunUpload,
            names=(Named(UPLOAD, "/upload_id"),),
        ),
        write(
            "uploads_list",
            "GET",
            UPLOADS,
            uploads.list,
            parameters=of_cluster,
            query=UploadsQuery,
            result=Uploads,
            names=(Named(UPLOAD, "/uploads/0/upload_id"),),
        ),
        write("uploads_abort", "DELETE", UPLOAD, uploads.abort, parameters=of_upload, query=PathQuery, status=204),
        write(
            "uploads_parts",
            "GET",
            f"{UPLOAD}/parts",
            uploads.parts,
            parameters=of_upload,
            query=PartsQuery,
            result=UploadedParts,
        ),
        write(
            "uploads_sign_parts",
            "POST",
            f"{UPLOAD}/part-urls",
            uploads.sign_parts,
            parameters=of_upload,
            body=SignParts,
            result=PartUrls,
        ),
        write(
            "uploads_complete",
            "POST",
            f"{UPLOAD}/complete",
            uploads.complete,
            parameters=once_of_upload,
            body=CompleteUpload,
            result=CompletedUpload,
        ),
    )
