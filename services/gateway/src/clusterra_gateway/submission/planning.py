"""Plans the staging of a submit: checks its paths and rights, and looks up its inputs in the bucket."""

import asyncio
import posixpath
from collections.abc import Callable

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.edge_folders import ListFolder, LocalUser
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.nats.rpc import RpcFailed

from clusterra_gateway.bus.requests import EdgeRequests
from clusterra_gateway.files.bucket_access import BucketAccess, Place
from clusterra_gateway.files.buckets import Buckets
from clusterra_gateway.files.objects import find
from clusterra_gateway.files.presigned import Bounds
from clusterra_gateway.http.requests.errors import (
    Conflict,
    FieldError,
    InvalidRequest,
    NotFound,
    RequestError,
    TooLarge,
)
from clusterra_gateway.identity.access.unix_users import Person
from clusterra_gateway.submission.models import Submission
from clusterra_gateway.submission.staged_files import Input, Output, StagingPlan

RIGHT_SECONDS = 5.0
"""How long a submit waits for the edge to say that it has no right. It says so without a look at any folder."""

_NO_FOLDER = "a job with staged files needs `current_working_directory`, a folder in the shared folder"


class Planning:
    """Makes the plans of jobs with staged files."""

    def __init__(self, buckets: Buckets, bounds: Bounds, edge: EdgeRequests, registry: Registry) -> None:
        self._buckets = buckets
        self._bounds = bounds
        self._edge = edge
        self._registry = registry

    async def plan(self, who: Person, ref: ClusterRef, submission: Submission) -> StagingPlan:
        """Check and look up what is staged, and that the edge can do it.

        Raises InvalidRequest that names the field, Forbidden, NotFound for a cluster without a bucket, Conflict.
        """
        plan = await self.look_up(who, ref, submission)
        await self.refuse_without_right(who, ref)
        return plan

    async def look_up(self, who: Person, ref: ClusterRef, submission: Submission) -> StagingPlan:
        """Check and look up what is staged. Raises what `plan` raises, but for Conflict."""
        reach, checked = await self._checked(who, ref, submission)
        inputs = tuple([await self._input(reach, submission, index) for index in range(len(submission.stage_in))])
        return checked.model_copy(update={"inputs": inputs})

    async def refuse_without_right(self, who: Person, ref: ClusterRef) -> None:
        """Raises Conflict if the edge cannot open files as users. An edge that does not answer passes: it may answer
        later."""
        look = ListFolder(user=LocalUser.of(who.slurm_user), limit=1)
        try:
            async with asyncio.timeout(RIGHT_SECONDS):
                await self._edge.folder(ref, look)
        except TimeoutError:
            return
        except RpcFailed as failed:
            if failed.error.kind == "conflict":
                raise Conflict(f"files are not staged here: {failed.error.detail}", hint=failed.error.hint) from None

    async def check(self, who: Person, ref: ClusterRef, submission: Submission) -> None:
        """Check what can be checked before the inputs are there. Raises what `plan` raises."""
        reach, _ = await self._checked(who, ref, submission)
        for index in range(len(submission.stage_in)):
            _readable(reach, submission, index)

    async def _checked(self, who: Person, ref: ClusterRef, submission: Submission) -> tuple[BucketAccess, StagingPlan]:
        binding = self._registry.get(ref)
        if binding is None:
            raise NotFound("there is no such cluster", hint="GET /v1/clusters lists yours")
        folder = _folder(submission.job.current_working_directory, binding.shared_path)
        if submission.stage_in:
            who.require("member", "files:read")
        reach = await BucketAccess.of(self._buckets, who, ref)
        outputs = tuple(
            Output(source=each.source, destination=_written(reach, each.destination, index))
            for index, each in enumerate(submission.stage_out)
        )
        destinations = [each.destination for each in submission.stage_in]
        for index, each in enumerate(destinations):
            if each in destinations[:index]:
                raise _invalid(f"stage_in/{index}/destination", "another file becomes this one")
        return reach, StagingPlan(folder=folder, outputs=outputs)

    async def _input(self, reach: BucketAccess, submission: Submission, index: int) -> Input:
        wanted, place = submission.stage_in[index], f"stage_in/{index}/source"
        source = _readable(reach, submission, index)
        known = await find(reach.bucket, source.key)
        if known is None:
            raise _invalid(place, f"there is no file {source.path.shown}", hint="upload it before you submit the job")
        try:
            size = self._bounds.within(known.size)
        except TooLarge as error:
            raise _invalid(place, error.detail) from None
        return Input(
            source=source.path.shown,
            key=source.key,
            destination=wanted.destination,
            size=size,
            etag=known.etag,
        )


def _folder(given: str | None, shared_path: str) -> str:
    """The working directory relative to the shared folder. The proxy reads a relative one the same way."""
    place = "job/current_working_directory"
    if not given:
        raise _invalid(place, _NO_FOLDER, hint=f"such as {shared_path}/run1; it is made if it does not exist")
    path = posixpath.normpath(posixpath.join(shared_path, given))
    root = f"{posixpath.normpath(shared_path)}/"
    if not f"{path}/".startswith(root) or "\0" in path or len(path) > 2048:
        raise _invalid(place, _NO_FOLDER, hint=f"the shared folder is {shared_path}")
    return path.removeprefix(root.removesuffix("/")).strip("/")


def _readable(reach: BucketAccess, submission: Submission, index: int) -> Place:
    return _at(f"stage_in/{index}/source", lambda: reach.readable(submission.stage_in[index].source))


def _written(reach: BucketAccess, text: str, index: int) -> str:
    place = f"stage_out/{index}/destination"
    # The right to write belongs to the area, such as `shared/`: one check does for all files.
    folder = _at(place, lambda: reach.folder(text))
    reach.require_write(folder.path)
    return folder.path.shown


def _at(place: str, look: Callable[[], Place]) -> Place:
    try:
        return look()
    except (InvalidRequest, NotFound) as error:
        raise _invalid(place, error.detail, hint=error.hint) from None


def _invalid(place: str, detail: str, *, hint: str = "") -> RequestError:
    name = place.replace("/", ".")
    return InvalidRequest(f"{name}: {detail}", hint=hint, errors=(FieldError("body", f"#/{place}", detail),))
