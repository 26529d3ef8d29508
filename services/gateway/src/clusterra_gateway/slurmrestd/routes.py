"""The routes for clients of slurmrestd. Their paths are slurmrestd's, below the path of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clusterra_gateway.accounts.roles import Role, Scope
from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.requests.parameters import JOB_ID, JOBS, Parameter, Query
from clusterra_gateway.http.routes.route import Method, Named, Route
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.identity.access.access import Access
from clusterra_gateway.identity.access.private_route import CLUSTER_ID, ClusterHandler
from clusterra_gateway.money.quotas.admission import PricedUpdates
from clusterra_gateway.slurmrestd.answers import UNSET, Read, RestAnswer
from clusterra_gateway.slurmrestd.changes import Changes, KillJobs, KillQuery, RequeueJobs, RestJobChanges
from clusterra_gateway.slurmrestd.route import (
    OPERATION,
    SLURM,
    SLURMDB,
    VERSION,
    Refusal,
    RefusedRoute,
    RestRoute,
    spellings,
)
from clusterra_gateway.slurmrestd.submission import DescribedSubmission
from clusterra_gateway.submits.desk import SubmitDesk

NODE_NAME = Parameter("node_name", "path", r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
PARTITION_NAME = Parameter("partition_name", "path", r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")
JOB = f"{SLURM}/job/{{job_id}}"
NODE = f"{SLURM}/node/{{node_name}}"
PARTITION = f"{SLURM}/partition/{{partition_name}}"
PAST_JOB = f"{SLURMDB}/job/{{job_id}}"
_JOBS_EMPTY = {"jobs": [], "last_backfill": UNSET, "last_update": UNSET}


class UpdatedQuery(Query):
    """`update_time`, in seconds since 1970: nothing is listed when nothing has changed since. `flags` are not used."""

    update_time: str | None = None
    flags: str | None = None


class HistoryQuery(Query):
    """slurmrestd's filters of past jobs, without those that show scripts and environments. Times are Slurm's."""

    account: str | None = None
    association: str | None = None
    cluster: str | None = None
    constraints: str | None = None
    disable_truncate_usage_time: str | None = None
    disable_wait_for_result: str | None = None
    end_time: str | None = None
    exit_code: str | None = None
    groups: str | None = None
    job_name: str | None = None
    node: str | None = None
    partition: str | None = None
    qos: str | None = None
    reason: str | None = None
    reservation: str | None = None
    show_duplicates: str | None = None
    skip_steps: str | None = None
    start_time: str | None = None
    state: str | None = None
    step: str | None = None
    usage_time_as_submit_time: str | None = None
    users: str | None = None
    """Of others, only admins see jobs."""
    wckey: str | None = None


class AssociationsQuery(Query):
    """Whose associations: only the caller's own are shown."""

    user: str | None = None


@dataclass(frozen=True)
class _Read:
    """A read that is passed on: `empty` are the fields that clients expect also in an answer with an error."""

    name: str
    path: str
    scope: Scope
    empty: Mapping[str, Any]
    description: str
    filters: type[Query] = Query
    parameter: Parameter | None = None
    many: bool = False
    names: tuple[Named, ...] = ()

    @property
    def resource(self) -> str:
        """The name of the resource on the bus, such as `slurm/jobs`."""
        _, _, _, _, family, _, word, *_ = self.path.split("/")
        return f"{family}/{word}"

    def route(self, access: Access, slurm: SlurmRequests) -> Route:
        """The route of the table."""
        return RestRoute(
            self.name,
            "GET",
            self.path,
            Read(slurm, self.resource, self.filters, self.parameter, self.many),
            access=access,
            scope=self.scope,
            parameters=(CLUSTER_ID, VERSION, *((self.parameter,) if self.parameter else ())),
            query=None if self.filters is Query else self.filters,
            result=RestAnswer,
            names=self.names,
            aliases=spellings(self.path),
            empty=self.empty,
            text=self.description,
        )


_STATUS: Mapping[str, Any] = {"status": []}
_NODES = {"nodes": [], "last_update": UNSET}
_PARTITIONS = {"partitions": [], "last_update": UNSET}
_LICENSES = {"licenses": [], "last_update": UNSET}
_CLUSTERS: Scope = "clusters:read"
_READS: tuple[_Read, ...] = (
    _Read("slurm_ping", f"{SLURM}/ping/", _CLUSTERS, {"pings": []}, "Returns whether slurmctld responds."),
    _Read("slurm_diag", f"{SLURM}/diag/", _CLUSTERS, {"statistics": {}}, "Returns slurmctld's statistics."),
    _Read("slurm_licenses", f"{SLURM}/licenses/", _CLUSTERS, _LICENSES, "Lists licenses."),
    _Read(
        "slurm_partitions",
        f"{SLURM}/partitions/",
        _CLUSTERS,
        _PARTITIONS,
        "Lists partitions.",
        UpdatedQuery,
        names=(Named(PARTITION, "/partitions/0/name"),),
    ),
    _Read(
        "slurm_partition",
        PARTITION,
        _CLUSTERS,
        _PARTITIONS,
        "Returns one partition.",
        UpdatedQuery,
        PARTITION_NAME,
    ),
    _Read(
        "slurm_nodes",
        f"{SLURM}/nodes/",
        _CLUSTERS,
        _NODES,
        "Lists nodes.",
        UpdatedQuery,
        many=True,
        names=(Named(NODE, "/nodes/0/name"),),
    ),
    _Read("slurm_node", NODE, _CLUSTERS, _NODES, "Returns one node.", UpdatedQuery, NODE_NAME),
    _Read(
        "slurm_jobs",
        f"{SLURM}/jobs/",
        "jobs:read",
        _JOBS_EMPTY,
        "Lists the caller's jobs; an admin's list has those of the whole tenant. It may be some seconds old.",
        UpdatedQuery,
        many=True,
        names=(Named(JOB, "/jobs/0/job_id"),),
    ),
    _Read(
        "slurm_job",
        JOB,
        "jobs:read",
        _JOBS_EMPTY,
        "Returns one job, or all records of an array.",
        UpdatedQuery,
        JOB_ID,
    ),
    _Read("slurmdb_ping", f"{SLURMDB}/ping/", _CLUSTERS, {"pings": []}, "Returns whether slurmdbd responds."),
    _Read(
        "slurmdb_jobs",
        f"{SLURMDB}/jobs/",
        "jobs:read",
        {"jobs": []},
        "Lists past and present jobs of the caller; for an admin those of the whole tenant. Without `start_time`, "
        "those of the last 7 days.",
        HistoryQuery,
        many=True,
        names=(Named(PAST_JOB, "/jobs/0/job_id"),),
    ),
    _Read(
        "slurmdb_job",
        PAST_JOB,
        "jobs:read",
        {"jobs": []},
        "Returns one job from accounting.",
        parameter=JOB_ID,
    ),
    _Read(
        "slurmdb_associations",
        f"{SLURMDB}/associations/",
        "jobs:read",
        {"associations": []},
        "Lists the caller's own associations.",
        AssociationsQuery,
    ),
)


def routes(access: Access, slurm: SlurmRequests, updates: PricedUpdates, desk: SubmitDesk) -> tuple[Route, ...]:
    """All routes of this room."""
    handlers = Changes(slurm, updates, desk)

    def change(name: str, method: Method, path: str, handler: ClusterHandler, **more: Any) -> RestRoute:
        return RestRoute(
            name,
            method,
            path,
            handler,
            access=access,
            scope="jobs:write",
            role="member",
            parameters=(CLUSTER_ID, VERSION, *more.pop("parameters", ())),
            result=RestAnswer,
            aliases=spellings(path),
            **more,
        )

    def refused(name: str, method: Method, family: str, role: Role, scope: Scope) -> RefusedRoute:
        return RefusedRoute(
            name,
            method,
            f"{SLURM if family == 'slurm' else SLURMDB}/{{operation}}",
            Refusal(family),
            access=access,
            scope=scope,
            role=role,
            parameters=(CLUSTER_ID, VERSION, OPERATION),
            result=RestAnswer,
        )

    return (
        change(
            "slurm_submit",
            "POST",
            f"{SLURM}/job/submit",
            handlers.submit,
            parameters=(IDEMPOTENCY_KEY,),
            body=DescribedSubmission,
            names=(Named(JOB, "/job_id"), Named(PAST_JOB, "/job_id")),
        ),
        change("slurm_requeue", "POST", f"{SLURM}/jobs/requeue", handlers.requeue, empty=_STATUS, body=RequeueJobs),
        change("slurm_kill_jobs", "DELETE", f"{SLURM}/jobs/", handlers.kill_jobs, empty=_STATUS, body=KillJobs),
        change("slurm_allocate", "POST", f"{SLURM}/job/allocate", Refusal("slurm", "job/allocate")),
        change("slurm_update", "POST", JOB, handlers.update, parameters=(JOBS,), body=RestJobChanges),
        change(
            "slurm_kill",
            "DELETE",
            JOB,
            handlers.kill,
            empty=_STATUS,
            parameters=(JOBS,),
            query=KillQuery,
        ),
        *(each.route(access, slurm) for each in _READS),
        refused("slurm_refused_read", "GET", "slurm", "viewer", _CLUSTERS),
        refused("slurm_refused_change", "POST", "slurm", "member", "jobs:write"),
        refused("slurm_refused_deletion", "DELETE", "slurm", "member", "jobs:write"),
        refused("slurmdb_refused_read", "GET", "slurmdb", "viewer", _CLUSTERS),
        refused("slurmdb_refused_change", "POST", "slurmdb", "member", "jobs:write"),
        refused("slurmdb_refused_deletion", "DELETE", "slurmdb", "member", "jobs:write"),
    )
