"""slurmctld through slurmrestd: typed reads and writes, in whichever API version slurmrestd serves."""

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from clusterra_contracts.identity import JobId, Moment, now
from clusterra_runtime.single_flight import SingleFlight

from clusterra_proxy.slurmrestd.answers import (
    Answer,
    Diagnostics,
    Jobs,
    KillAnswer,
    Nodes,
    PartitionDefaults,
    Partitions,
    Pings,
    RequeueAnswer,
    States,
    SubmitAnswer,
)
from clusterra_proxy.slurmrestd.client import Slurmrestd
from clusterra_proxy.slurmrestd.error_codes import INVALID_NODE, error_from_number
from clusterra_proxy.slurmrestd.errors import Conflict, Invalid, NotFound, Rejected, Unavailable
from clusterra_proxy.slurmrestd.known_records import KnownRecords
from clusterra_proxy.slurmrestd.records import UNKNOWN_STATE, JobRecord, NodeRecord
from clusterra_proxy.slurmrestd.versions import V45, VERSIONS, Version

type JobList = tuple[Moment, tuple[JobRecord, ...], int | None, int]
"""The time of the request, the records, the `changed_after` of the next call, and the number of records that were
left out because their job ids cannot be read."""
type NodeList = tuple[tuple[NodeRecord, ...], int | None, int]
"""The records, the `changed_after` of the next call, and the number of records without a readable name."""

_NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Slurmctld:
    """One cluster's slurmctld. Every call carries its caller's token. At most one job list is in flight, shared by
    all callers.

    Every method raises the errors of `clusterra_proxy.slurmrestd.errors`.
    """

    def __init__(self, slurmrestd: Slurmrestd) -> None:
        self.rest = slurmrestd
        self._version: Version | None = None
        self._served: set[str] = set()
        self._known_states = KnownRecords[States]()
        self._known_nodes = KnownRecords[Nodes]()
        self._known_jobs = KnownRecords[Jobs]()
        self._listings = SingleFlight[int | None, JobList | None]()
        self.slurm_version = ""
        """The Slurm release of the last answer, such as `26.05.5`."""
        self.last_listed_at: Moment | None = None

    @property
    def api_version(self) -> str:
        """The API version in use; empty before the first answer."""
        return self._version.name if self._version else ""

    async def version(self, token: str) -> Version:
        """Return the first of `VERSIONS` that slurmrestd serves. Detected once, and again after `forget_version`."""
        if self._version is None:
            for version in VERSIONS:
                try:
                    answer = await self.rest.read(version.slurm("ping/"), token, Pings, entity="API version")
                except NotFound:
                    continue
                self.slurm_version = answer.meta.slurm.release
                self._version = version
                return version
            names = ", ".join(version.name for version in VERSIONS)
            raise Unavailable(
                "slurmrestd serves none of the API versions that the proxy supports",
                hint=f"configure slurmrestd to serve one of {names}",
            )
        return self._version

    async def serves(self, token: str, version: Version) -> bool:
        """Return whether slurmrestd serves this version."""
        if version.name not in self._served:
            try:
                await self.rest.read(version.slurm("ping/"), token, Pings, entity="API version")
            except NotFound:
                return False
            self._served.add(version.name)
        return True

    def forget_version(self) -> None:
        """Detect the served version again at the next call."""
        self._version = None
        self._served.clear()

    async def ping(self, token: str) -> bool:
        """Return whether slurmctld responds. Also detects a changed API version."""
        self.forget_version()
        version = await self.version(token)
        answer = await self.rest.read(version.slurm("ping/"), token, Pings, entity="slurmctld")
        return any(ping.responding for ping in answer.pings)

    async def names(self, token: str) -> tuple[str, ...]:
        """Return who slurmctld says that it is: its ClusterName, then the host names of its controllers."""
        version = await self.version(token)
        answer = await self.rest.read(version.slurm("ping/"), token, Pings, entity="slurmctld")
        return answer.meta.slurm.cluster, *sorted(ping.hostname for ping in answer.pings)

    async def clock_ahead(self, token: str) -> timedelta:
        """Return how much slurmctld's clock is ahead of this one, to a second; negative when it is behind.

        Raises Unavailable also when the answer has no time.
        """
        version = await self.version(token)
        answer = await self.rest.read(version.slurm("diag/"), token, Diagnostics, entity="slurmctld")
        if answer.statistics.req_time is None:
            raise Unavailable("slurmctld does not tell its time")
        return answer.statistics.req_time - now()

    async def states(self, token: str, *, many: bool = False) -> States:
        """Read the states of all jobs of all users. Cheap for some thousands; `many` are given the time of a list."""
        version = await self.version(token)
        path = version.slurm("jobs/state/")
        read = self.rest.read_list if many else self.rest.read
        answer = await read(path, token, States, entity="job", known=self._known_states)
        if answer is None:
            raise Unavailable("slurmrestd says that the states have not changed, though it was not asked that")
        return answer

    async def job(self, token: str, job_id: JobId) -> tuple[JobRecord, ...]:
        """Read the record of a job, or all records of an array, also when `job_id` names one of its tasks.

        Raises NotFound, also for a job that the token's user may not see.
        """
        version = await self.version(token)
        answer = await self.rest.read(version.slurm(f"job/{job_id}"), token, version.jobs, entity="job")
        if not answer.jobs and answer.unidentified:
            return (_unidentified(job_id),)
        if not answer.jobs:
            raise NotFound(f"job {job_id} does not exist")
        return answer.jobs

    async def jobs(self, token: str, *, changed_after: int | None = None) -> JobList | None:
        """List all jobs; None when nothing has changed since `changed_after`.

        Callers that arrive while a list with the same `changed_after` is in flight share its result: a list of changes
        may be None where the whole list is not empty.
        """
        return await self._listings.get(changed_after, partial(self._list, token, changed_after))

    async def close(self) -> None:
        """Cancel the lists in flight."""
        await self._listings.close()

    async def _list(self, token: str, changed_after: int | None) -> JobList | None:
        began = now()
        version = await self.version(token)
        query = {"update_time": str(changed_after)} if changed_after else None
        answer = await self.rest.read_list(
            version.slurm("jobs/"), token, version.jobs, entity="job", query=query, known_lines=self._known_jobs
        )
        self.last_listed_at = began
        if answer is None or (changed_after and not answer.jobs and not answer.unidentified):
            return None
        return began, answer.jobs, answer.last_update, answer.unidentified

    async def nodes(self, token: str, *, changed_after: int | None = None) -> NodeList | None:
        """List all nodes. Returns None when nothing has changed since `changed_after`."""
        version = await self.version(token)
        query = {"update_time": str(changed_after)} if changed_after else None
        answer = await self.rest.read_list(
            version.slurm("nodes/"), token, Nodes, entity="node", query=query, known=self._known_nodes
        )
        return None if answer is None else (answer.nodes, answer.last_update, answer.unidentified)

    async def node(self, token: str, name: str) -> NodeRecord:
        """Read one node. Raises NotFound."""
        version = await self.version(token)
        answer = await self.rest.read(version.slurm(node_path(name)), token, Nodes, entity="node")
        if not answer.nodes:
            raise NotFound(f"node {name} does not exist")
        return answer.nodes[0]

    async def partitions(self, token: str) -> dict[str, PartitionDefaults]:
        """Return the defaults of all partitions, by their names."""
        version = await self.version(token)
        answer = await self.rest.read(version.slurm("partitions/"), token, Partitions, entity="partition")
        return {partition.name: partition.defaults for partition in answer.partitions}

    async def submit(self, token: str, script: str, *jobs: Mapping[str, Any]) -> SubmitAnswer:
        """Submit a batch script with a `job_desc_msg`, or with one for each component of a heterogeneous job.

        Of a heterogeneous job, the answer has the id of the first component. slurmctld makes all components or none.
        Raises Rejected, also when a job names a missing object.
        """
        version = await self.version(token)
        body = {"script": script} | ({"job": jobs[0]} if len(jobs) == 1 else {"jobs": list(jobs)})
        try:
            return await self.rest.write(
                "POST", version.slurm("job/submit"), token, SubmitAnswer, entity="job", body=body
            )
        except (NotFound, Conflict) as error:
            raise Rejected(error.error.detail, code=error.error.code) from error

    async def kill(self, token: str, job_id: str) -> None:
        """Cancel a job, a task, some tasks or a whole array.

        Raises NotFound, Forbidden for another user's job, and Conflict when the job has ended. `DELETE job/{id}` is
        not used because it answers 200 to everything.
        """
        await self._signal(token, {"jobs": [job_id]})

    async def update_job(self, token: str, number: int, changes: Mapping[str, Any]) -> None:
        """Change a job, or all tasks of an array, with fields of a `job_desc_msg`.

        Slurm takes no task's id here, only the number of a record. Raises NotFound, Forbidden and Conflict.
        """
        version = await self.version(token)
        await self.rest.write("POST", version.slurm(f"job/{number}"), token, Answer, entity="job", body=changes)

    async def signal(self, token: str, jobs: str, signal: str, *, batch_only: bool = False) -> None:
        """Send a signal to jobs, tasks or an array. Raises as `kill`, and Conflict when none of it runs."""
        await self._signal(token, {"jobs": [jobs], "signal": signal} | ({"flags": ["BATCH_JOB"]} if batch_only else {}))

    async def _signal(self, token: str, body: Mapping[str, Any]) -> None:
        version = await self.version(token)
        answer = await self.rest.write("DELETE", version.slurm("jobs/"), token, KillAnswer, entity="job", body=body)
        for status in answer.status:
            if status.error.code:
                raise error_from_number(status.error.code, f"job {body['jobs'][0]}: {status.error.message}")

    async def requeue(self, token: str, jobs: Sequence[JobId], *, hold: bool = False) -> None:
        """Requeue jobs, tasks or arrays, and hold them if asked to. Slurm takes no range of tasks here.

        Raises NotFound, Forbidden, Conflict for pending jobs, and Rejected by a Slurm before 26.05, whose slurmrestd
        cannot requeue.
        """
        body = {"jobs": list(jobs)} | ({"flags": ["Hold"]} if hold else {})
        try:
            answer = await self.rest.write(
                "POST", V45.slurm("jobs/requeue"), token, RequeueAnswer, entity="job", body=body
            )
        except NotFound as error:
            if error.error.code:
                raise
            raise Rejected(
                "this cluster's Slurm cannot requeue jobs through its API",
                hint="that needs Slurm 26.05; until then use scontrol requeue",
            ) from error
        failed = [status for statuses in answer.status for status in statuses if status.error_code]
        if failed:
            raise error_from_number(failed[0].error_code, f"job {failed[0].step_id}: {failed[0].error}")

    async def update_node(self, token: str, name: str, states: Sequence[str], reason: str = "") -> None:
        """Set a node's states. Raises NotFound."""
        version = await self.version(token)
        body = {"state": list(states)} | ({"reason": reason} if reason else {})
        await self.rest.write("POST", version.slurm(node_path(name)), token, Answer, entity="node", body=body)

    async def set_extra(self, token: str, name: str, extra: str) -> None:
        """Set a node's Extra, which jobs' `extra` expressions are matched with. It can be replaced but not removed.

        Raises NotFound, and Rejected when `extra` is not JSON.
        """
        version = await self.version(token)
        body = {"extra": extra}
        await self.rest.write("POST", version.slurm(node_path(name)), token, Answer, entity="node", body=body)

    async def delete_node(self, token: str, name: str) -> bool:
        """Delete a dynamic node's record. Returns False when it does not exist. Raises Conflict while it is busy."""
        version = await self.version(token)
        try:
            await self.rest.write("DELETE", version.slurm(node_path(name)), token, Answer, entity="node")
        except NotFound as error:
            if error.error.code != INVALID_NODE:
                raise
            return False
        return True


def _unidentified(job_id: JobId) -> JobRecord:
    """Return a record of which only the id is known, because it was asked for."""
    number = int(job_id.partition("_")[0])
    return JobRecord(job_id=number, job_state=(UNKNOWN_STATE,), unreadable=(JobRecord.KEY,))


def node_path(name: str) -> str:
    """Return the path of one node. Raises Invalid for what is no name of a single node."""
    # Slurm would apply a hostlist expression to many nodes, and `/` or `?` would change the request.
    if not _NODE_NAME.fullmatch(name):
        raise Invalid(
            f"{name!r} is not the name of a single node",
            hint="name one node, by letters, digits, `.`, `_` and `-`; a hostlist expression is not allowed",
        )
    return f"node/{name}"
