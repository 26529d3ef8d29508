"""A program with a client that a generator made from slurmrestd's own OpenAPI document: it works with one job.

It runs outside of the project's environment. Arguments: the address below which slurmrestd is, and the version of its
API. The token is in SLURM_JWT, as for Slurm's own commands. It prints one JSON object.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

GENERATED = "slurmrestd_client"
"""The package that the generator wrote."""
LATER = 4_000_000_000
SECONDS = 60.0


class Program:
    """One client, one version of slurmrestd's API."""

    def __init__(self, address: str, token: str, version: str) -> None:
        self._version = version.replace(".", "")
        self._client = importlib.import_module(f"{GENERATED}.client").AuthenticatedClient(
            base_url=address, token=token, prefix="", auth_header_name="X-SLURM-USER-TOKEN"
        )

    def call(self, family: str, operation: str, *path: Any, **more: Any) -> Any:
        """The answer of an operation such as `get_jobs`, as the client has parsed it. Raises RuntimeError."""
        name = f"{family}_{self._version}_{operation}"
        module = importlib.import_module(f"{GENERATED}.api.{family}.{name}")
        answer = module.sync_detailed(*path, client=self._client, **more)
        if answer.status_code != 200 or answer.parsed is None:
            raise RuntimeError(f"{name}: {answer.status_code} {answer.content[:500]!r}")
        if getattr(answer.parsed, "errors", None):
            raise RuntimeError(f"{name}: {answer.parsed.errors}")
        return answer.parsed

    def model(self, name: str) -> Any:
        """A model of this version, such as `JobSubmitReq`."""
        return getattr(importlib.import_module(f"{GENERATED}.models"), self._version.capitalize() + name)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition. Raises TimeoutError."""
        deadline = time.monotonic() + SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited too long for {what}")
            time.sleep(0.2)

    def listed(self, job_id: int) -> bool:
        """Whether the list of slurmctld's jobs has the job."""
        return job_id in [job.job_id for job in self.call("slurm", "get_jobs").jobs]

    def accounted(self, job_id: int) -> bool:
        """Whether slurmdbd has the job as cancelled."""
        try:
            [job] = self.call("slurmdb", "get_job", str(job_id)).jobs
        except RuntimeError:
            return False
        return "CANCELLED" in job.state.current


def main(address: str, version: str) -> None:
    """List, submit, read, change and cancel."""
    program = Program(address, os.environ["SLURM_JWT"], version)
    body = {
        "script": "#!/bin/sh\ntrue\n",
        "job": {
            "name": "generated",
            "current_working_directory": "/tmp",
            "environment": ["PATH=/usr/bin:/bin"],
            "begin_time": {"set": True, "infinite": False, "number": LATER},
        },
    }
    submitted = program.call("slurm", "post_job_submit", body=program.model("JobSubmitReq").from_dict(body))
    job_id = submitted.job_id
    program.until(lambda: program.listed(job_id), "the job in the list")
    [read] = program.call("slurm", "get_job", str(job_id)).jobs
    change = program.model("JobDescMsg").from_dict({"name": "renamed"})
    program.call("slurm", "post_job", str(job_id), body=change)
    [renamed] = program.call("slurm", "get_job", str(job_id)).jobs
    program.call("slurm", "delete_job", str(job_id))
    [cancelled] = program.call("slurm", "get_job", str(job_id)).jobs
    program.until(lambda: program.accounted(job_id), "the job in accounting")
    told = {
        "job_id": job_id,
        "names": [read.name, renamed.name],
        "uid": read.user_id,
        "state": cancelled.job_state,
        "partitions": [partition.name for partition in program.call("slurm", "get_partitions").partitions],
        "accounted": len(program.call("slurmdb", "get_jobs").jobs),
        "nodes": len(program.call("slurm", "get_nodes").nodes),
        "controllers": [ping.hostname for ping in program.call("slurm", "get_ping").pings],
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])
