"""Reads the script that a job was submitted with from slurmdbd, which alone keeps it for as long as it keeps the job.

slurmctld gives a script to nobody by slurmrestd. The proxy submits scripts as they are, so what slurmdbd has is what
the user submitted.
"""

import asyncio
import base64
import zlib

from clusterra_contracts.rpc.slurm_scripts import MAX_SCRIPT_BYTES, PACKED_SCRIPT_BYTES, JobScript, ReadScript

from clusterra_proxy.cluster.cluster import Cluster
from clusterra_proxy.slurmrestd.errors import NotFound


async def read_script(cluster: Cluster, request: ReadScript) -> JobScript:
    """Return a job's script.

    Raises NotFound, also for a job that the viewer may not see, or whose script slurmdbd does not have or is too large,
    and what `clusterra_proxy.slurmrestd.errors` has for a Slurm that does not answer.
    """
    cluster.mint.names.learn_viewer(request.viewer)
    token, uid = cluster.mint.operator_token(), request.viewer.only_uid
    script = await cluster.accounting.script(token, request.job_id, uid=uid)
    array, task, _ = request.job_id.partition("_")
    if script is None and task:
        # slurmdbd has no records of tasks that have not started: only one of their array.
        script = await cluster.accounting.script(token, array, uid=uid)
    if script is None:
        raise NotFound(
            f"Slurm's accounting does not have job {request.job_id}",
            hint="a job gets there some seconds after its submit: try again in a moment",
        )
    if not script:
        raise NotFound(
            f"Slurm's accounting has no script of job {request.job_id}",
            # It asks slurmctld for the script only after it has the job.
            hint="it gets there some seconds after the submit, for jobs that are submitted while slurm.conf has"
            " AccountingStoreFlags=job_script; a job of salloc or srun has none",
        )
    return JobScript(packed=await asyncio.to_thread(pack, script))


def pack(script: str) -> bytes:
    """Return a script as it is sent: compressed and in base64. Raises NotFound."""
    content = script.encode(errors="replace")
    packed = zlib.compress(content) if len(content) <= MAX_SCRIPT_BYTES else b""
    if not 0 < len(packed) <= PACKED_SCRIPT_BYTES:
        raise NotFound(
            "the script is too large to be shown",
            hint=f"a script of at most {MAX_SCRIPT_BYTES >> 20} MiB, or {PACKED_SCRIPT_BYTES >> 10} KiB compressed, is",
        )
    return base64.b64encode(packed)
