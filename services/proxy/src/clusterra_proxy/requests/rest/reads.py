"""Answers reads for clients that speak slurmrestd: one function for each resource."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from clusterra_contracts.identity import JobId, now
from clusterra_contracts.rpc.slurm_rest import ReadRest, RestPart
from pydantic import TypeAdapter, ValidationError

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.requests.rest.parts import answer_text, part_of, unchanged
from clusterra_proxy.requests.rest.shared_lists import SharedLists
from clusterra_proxy.slurmrestd.errors import Invalid, NotFound, Rejected, SlurmFailed
from clusterra_proxy.slurmrestd.relay.lists import PackedList, without_jobs_of_others
from clusterra_proxy.slurmrestd.relay.whole import WholeAnswer
from clusterra_proxy.slurmrestd.slurmctld import node_path
from clusterra_proxy.slurmrestd.versions import VERSIONS, Version

HISTORY = timedelta(days=7)
"""How far back slurmdbd is asked when the query has no time."""
HISTORY_FILTERS = frozenset(
    {
        *("account", "association", "constraints", "cluster", "end_time", "exit_code", "groups", "job_name", "node"),
        *("partition", "qos", "reason", "reservation", "show_duplicates", "skip_steps", "start_time", "state", "step"),
        *("usage_time_as_submit_time", "users", "wckey", "disable_truncate_usage_time", "disable_wait_for_result"),
    }
)
"""The parameters of slurmdbd's jobs that are passed on. Scripts and environments, which hold secrets, are not."""
_ERRORS_OF_FILTERS = frozenset({-1, 22, 9207})
"""What slurmrestd answers to a filter with a QOS that does not exist (-1), a list of nodes that is none (22), and a
state that does not exist (9207). A slurmdbd that is away has numbers of its own."""
_UNSPECIFIED = "Unspecified error"
"""Slurm's text for -1, which stands without the number where several filters are wrong."""
_USERS_OF_SLURM = ("rpcs_by_user", "pending_rpcs", "pending_rpcs_by_hostlist")
"""What of slurmctld's statistics tells of other people."""

_JOB_ID: TypeAdapter[str] = TypeAdapter(JobId)


class RestReads:
    """Reads of one cluster. Raises the errors of `clusterra_proxy.slurmrestd.errors`."""

    def __init__(self, lists: SharedLists) -> None:
        self._lists = lists
        self._resources: Mapping[str, Callable[[Cluster, Version, ReadRest], Awaitable[RestPart]]] = {
            "slurm/ping": self._plain,
            "slurm/licenses": self._plain,
            "slurm/partitions": self._plain,
            "slurm/diag": self._diag,
            "slurm/partition": self._partition,
            "slurm/node": self._node,
            "slurm/nodes": self._nodes,
            "slurm/job": self._job,
            "slurm/jobs": self._jobs,
            "slurmdb/ping": self._database_ping,
            "slurmdb/job": self._past_job,
            "slurmdb/jobs": self._history,
            "slurmdb/associations": self._associations,
        }

    async def read(self, cluster: Cluster, request: ReadRest) -> RestPart:
        """Read a resource, or a part of a list. Raises NotFound for a version that is not served, and names those."""
        read = self._resources.get(request.resource)
        if read is None:
            raise NotFound(f"{request.resource} is not passed on to slurmrestd")
        cluster.mint.names.learn_viewer(request.viewer)
        return await read(cluster, await _version(cluster, request.version), request)

    async def _plain(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        path = version.slurm(f"{request.resource.partition('/')[2]}/")
        return _whole(await _get(cluster, path, "cluster"), request)

    async def _database_ping(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        return _whole(await _get(cluster, version.slurmdb("ping/"), "slurmdbd"), request)

    async def _diag(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        content = await _get(cluster, version.slurm("diag/"), "slurmctld")
        statistics = content.get("statistics")
        if request.viewer.only_uid is not None and isinstance(statistics, dict):
            hidden: dict[str, list[Any]] = {name: [] for name in _USERS_OF_SLURM if name in statistics}
            content = content | {"statistics": statistics | hidden}
        return _whole(content, request)

    async def _partition(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        content = await _get(cluster, version.slurm("partitions/"), "partition")
        found = [each for each in _items(content, "partitions") if each.get("name") == request.name]
        if not found:
            raise NotFound("there is no such partition")
        return _whole(content | {"partitions": found}, request)

    async def _node(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        content = await _get(cluster, version.slurm(node_path(request.name)), "node")
        nodes = _items(content, "nodes")
        if not nodes:
            raise NotFound(f"node {request.name} does not exist")
        shown = nodes if request.viewer.only_uid is None else [without_jobs_of_others(node) for node in nodes]
        return _whole(content | {"nodes": shown}, request)

    async def _nodes(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        nodes = await self._lists.nodes(version)
        if _is_unchanged(nodes, request):
            return unchanged(nodes, request.viewer).model_copy(update={"not_modified": True})
        return part_of(nodes, request.viewer, request.after, _unused(request))

    async def _job(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        job_id = _checked(request.name)
        await cluster.wait_for_own_changes()
        content = await _get(cluster, version.slurm(f"job/{job_id}"), "job")
        seen = [job for job in _items(content, "jobs") if request.viewer.sees(job.get("user_id"))]
        if not seen:
            raise NotFound(f"job {job_id} does not exist")
        return _whole(content | {"jobs": seen}, request)

    async def _jobs(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        jobs = await self._lists.jobs(version)
        if _is_unchanged(jobs, request):
            return unchanged(jobs, request.viewer)
        return part_of(jobs, request.viewer, request.after, _unused(request))

    async def _past_job(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        query = {"step": _checked(request.name), "show_duplicates": "true"}
        history = await self._lists.history(version, _of_viewer(request, query))
        if not history.blocks:
            raise NotFound(f"job {request.name} does not exist")
        return part_of(history, request.viewer, request.after)

    async def _history(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        if refused := sorted(request.query.keys() - HISTORY_FILTERS):
            raise Invalid(f"{', '.join(refused)}: not passed on to slurmdbd", hint="leave it out")
        query = dict(request.query)
        warnings: tuple[str, ...] = ()
        if not query.keys() & {"start_time", "end_time", "step"}:
            # To a minute, so that the parts of one list, and those who ask at the same time, have the same query.
            since = now().replace(second=0, microsecond=0) - HISTORY
            query["start_time"] = f"uts{int(since.timestamp())}"
            warnings = (f"without start_time, the jobs of the last {HISTORY.days} days are listed",)
        try:
            history = await self._lists.history(version, _of_viewer(request, query))
        except SlurmFailed as error:
            if request.query and (error.error.code in _ERRORS_OF_FILTERS or _UNSPECIFIED in error.error.detail):
                hint = "check the names and values of the filters"
                raise Rejected(error.error.detail, hint=hint, code=error.error.code) from error
            raise
        return part_of(history, request.viewer, request.after, warnings)

    async def _associations(self, cluster: Cluster, version: Version, request: ReadRest) -> RestPart:
        user = request.viewer.user
        path = version.slurmdb("associations/")
        answer = await cluster.slurmctld.rest.read(
            path, cluster.mint.operator_token(), WholeAnswer, entity="association", query={"user": user.name}
        )
        asked = request.viewer.identified and request.query.get("user") in (None, "", user.name)
        own = [each for each in _items(answer.content, "associations") if asked and each.get("user") == user.name]
        return _whole(answer.content | {"associations": own}, request)


async def _version(cluster: Cluster, name: str) -> Version:
    token = cluster.mint.operator_token()
    known = {version.name: version for version in VERSIONS}
    if name in known and await cluster.slurmctld.serves(token, known[name]):
        return known[name]
    served = [each.name for each in known.values() if await cluster.slurmctld.serves(token, each)]
    raise NotFound(
        f"the API version {name} is not served", hint=f"this cluster serves {', '.join(sorted(served)) or 'none'}"
    )


async def _get(cluster: Cluster, path: str, entity: str) -> dict[str, Any]:
    token = cluster.mint.operator_token()
    return (await cluster.slurmctld.rest.read(path, token, WholeAnswer, entity=entity)).content


def _whole(content: Mapping[str, Any], request: ReadRest) -> RestPart:
    return RestPart(answer=answer_text(content, request.viewer.user))


def _items(content: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    items = content.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _of_viewer(request: ReadRest, query: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the query for jobs of the viewer only: slurmdbd's records hold no uid, so the query has to say it."""
    uid = request.viewer.only_uid
    whose = {} if uid is None else {"users": str(uid)}
    return tuple(sorted((query | whose).items()))


def _is_unchanged(packed: PackedList, request: ReadRest) -> bool:
    given = request.query.get("update_time", "")
    since = int(given) if given.isascii() and given.isdecimal() and len(given) <= 18 else 0
    return request.after is None and since > 0 and packed.last_update is not None and packed.last_update <= since


def _unused(request: ReadRest) -> tuple[str, ...]:
    return ("flags are not used: one list is read for all who ask",) if request.query.get("flags") else ()


def _checked(job_id: str) -> str:
    try:
        return _JOB_ID.validate_python(job_id)
    except ValidationError:
        raise NotFound(
            "there is no such job", hint="a job id looks like 42, the id of an array task like 42_7"
        ) from None
