"""What stands behind the gateway, by request and reply: each cluster's proxy and edge, the archive, the scaler."""

from typing import Literal

from clusterra_contracts.bus import subjects
from clusterra_contracts.identity import ClusterRef, JobId, TenantRef
from clusterra_contracts.rpc.edge import LOG_CHUNK_BYTES, LogChunk, ReadLog
from clusterra_contracts.rpc.history import HistoryPage, ReadHistory
from clusterra_contracts.rpc.reply import Done
from clusterra_contracts.rpc.slurm import Cancel, GetJob, Job, JobPage, ListJobs, Submit, Submitted, Viewer
from clusterra_contracts.rpc.usage import ReadUsage, Usage
from clusterra_contracts.rpc.why import ExplainJob, Explanation
from clusterra_runtime.nats.bus import Client
from clusterra_runtime.nats.rpc import call

OutputStream = Literal["stdout", "stderr"]

USAGE_SECONDS = 1.0
"""A profile is not worth waiting longer for its cost."""


class Upstream:
    """Every method raises RpcFailed."""

    def __init__(self, client: Client, *, slurm_seconds: float, edge_seconds: float) -> None:
        self._client = client
        self._slurm_seconds = slurm_seconds
        self._edge_seconds = edge_seconds

    async def submit(self, ref: ClusterRef, submit: Submit) -> Submitted:
        """Submit a job to a cluster's Slurm."""
        subject = subjects.slurm(ref, "submit")
        return await call(self._client, subject, submit, Submitted, timeout_seconds=self._slurm_seconds)

    async def job(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> Job:
        """One job; one that the viewer may not see is not found."""
        request = GetJob(viewer=viewer, job_id=job_id)
        return await call(self._client, subjects.slurm(ref, "get"), request, Job, timeout_seconds=self._slurm_seconds)

    async def jobs(self, ref: ClusterRef, request: ListJobs) -> JobPage:
        """A page of jobs."""
        return await call(
            self._client, subjects.slurm(ref, "list"), request, JobPage, timeout_seconds=self._slurm_seconds
        )

    async def cancel(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> None:
        """Cancel a job."""
        request = Cancel(viewer=viewer, job_id=job_id)
        await call(self._client, subjects.slurm(ref, "cancel"), request, Done, timeout_seconds=self._slurm_seconds)

    async def output(
        self, ref: ClusterRef, job: Job, stream: OutputStream, *, offset: int, wait_seconds: float = 0.0
    ) -> LogChunk:
        """A part of what a job has written; of kind `not_found` before it has written anything."""
        request = ReadLog(
            job_id=job.job_id,
            uid=job.uid,
            stream=stream,
            offset=offset,
            limit=LOG_CHUNK_BYTES,
            wait_seconds=wait_seconds,
        )
        timeout = self._edge_seconds + wait_seconds
        return await call(self._client, subjects.edge(ref, "log"), request, LogChunk, timeout_seconds=timeout)

    async def history(self, ref: ClusterRef, request: ReadHistory) -> HistoryPage:
        """A page of a cluster's events."""
        return await call(self._client, subjects.history(ref), request, HistoryPage)

    async def why(self, ref: ClusterRef, viewer: Viewer, job_id: JobId) -> Explanation:
        """Why a job waits or what it runs on; one that the viewer may not see is not found."""
        request = ExplainJob(viewer=viewer, job_id=job_id)
        return await call(self._client, subjects.scaler(ref, "why"), request, Explanation)

    async def usage(self, tenant: TenantRef, uid: int) -> Usage:
        """What a person's jobs cost now."""
        request = ReadUsage(uid=uid)
        return await call(self._client, subjects.usage(tenant), request, Usage, timeout_seconds=USAGE_SECONDS)
