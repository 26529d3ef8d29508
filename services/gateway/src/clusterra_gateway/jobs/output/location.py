"""Where a job's output is in the shared folder of its cluster, by the path that Slurm tells."""

from posixpath import normpath

from clusterra_contracts.rpc.slurm import Job

from clusterra_gateway.bus.requests import OutputStream
from clusterra_gateway.http.requests.errors import NotFound


def relative_path(job: Job, stream: OutputStream, shared_path: str) -> str | None:
    """The path of an output, relative to the shared folder; None where Slurm does not tell it (yet).

    A pending array has only a pattern, and so has an array as a whole. Slurm tells a relative pattern as it is written.
    Raises NotFound for an output outside of the shared folder, and for a stderr that the job writes to its stdout.
    """
    path = job.standard_output if stream == "stdout" else job.standard_error
    if not path or ("%" in path and (job.array_tasks or not path.startswith("/"))):
        return None
    if stream == "stderr" and path == job.standard_output:
        raise NotFound(f"job {job.job_id} writes its stderr to its stdout", hint="read the stdout")
    folder = shared_path.rstrip("/") + "/"
    # Slurm tells `./x`, `a/../x` and `//x` as the user wrote them. The agent, which opens the path, follows no link.
    normal = "/" + normpath(path).lstrip("/") if path.startswith("/") else path
    if not normal.startswith(folder):
        raise NotFound(
            f"job {job.job_id} writes its {stream} to {path}, outside of the cluster's shared folder",
            hint=f"let jobs write below {folder}, by --output",
        )
    return normal.removeprefix(folder)
