"""The script that a job was submitted with: `GET /v1/clusters/{cluster_id}/jobs/{job_id}/script`.

Whoever may read the output of a job may read its script: those who see the job. It may hold secrets, so it is never
logged.
"""

import asyncio
import zlib

from aiohttp import web
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.slurm import Job, Viewer
from clusterra_contracts.rpc.slurm_scripts import MAX_SCRIPT_BYTES

from clusterra_gateway.bus.requests import SlurmRequests
from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.parameters import JOB_ID, job_id
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import CLUSTER, Needs, cluster_routes

SCRIPT = f"{CLUSTER}/jobs/{{job_id}}/script"

api = cluster_routes(JOB_ID, reads=Needs("jobs:read"))


class SubmittedScript(ResponseBody):
    """A job's batch script, as it was submitted."""

    cluster_id: str
    job_id: str
    script: str
    """With its `#SBATCH` lines. What was given beside it, such as fields of `job` and the environment, is not in it."""


class Scripts:
    """The handler of scripts."""

    def __init__(self, slurm: SlurmRequests) -> None:
        self._slurm = slurm

    @api.get("jobs_script", SCRIPT, result=SubmittedScript)
    async def read(self, request: web.Request, caller: Caller, ref: ClusterRef) -> web.StreamResponse:
        """Returns the script that the job was submitted with, for as long as Slurm's accounting has it.

        It is 404 until accounting has the job, some seconds after its submit, and on a cluster whose slurm.conf lacks
        `AccountingStoreFlags=job_script`. The tasks of an array and the components of a heterogeneous job have the
        script of the whole.
        """
        wanted = job_id(request)
        # It is `not_found` for whoever may not see the job.
        job = await self._slurm.job(ref, caller.viewer, wanted)
        script = await submitted_script(self._slurm, ref, caller.viewer, job)
        return json_response(SubmittedScript(cluster_id=ref.cluster, job_id=wanted, script=script))


async def submitted_script(slurm: SlurmRequests, ref: ClusterRef, viewer: Viewer, job: Job) -> str:
    """The script of a job that the viewer sees. Raises RpcFailed: `not_found` where accounting does not have it."""
    # Only the first component has the script.
    kept = await slurm.script(ref, viewer, job.het_job_id or job.job_id)
    return await asyncio.to_thread(unpacked, kept.packed)


def unpacked(packed: bytes) -> str:
    """The text of a compressed script, of at most MAX_SCRIPT_BYTES."""
    return zlib.decompressobj().decompress(packed, MAX_SCRIPT_BYTES).decode(errors="replace")
