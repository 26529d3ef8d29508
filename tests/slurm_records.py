"""Records of jobs as slurmrestd has them, and the fields that do not depend on who submitted a job, and when."""

import json
from typing import Any

from clusterra_lab.parts.user import User

SAME = (
    *("name", "state_reason", "job_state", "partition", "account", "qos", "nice", "requeue", "array_task_string"),
    *("time_limit", "cpus", "cpus_per_task", "tasks", "memory_per_node", "memory_per_cpu", "node_count", "features"),
    *("dependency", "shared", "tres_req_str", "excluded_nodes", "licenses", "priority", "standard_error", "max_nodes"),
    *("minimum_cpus_per_node", "array_max_tasks", "user_id", "group_id", "hold", "batch_flag", "contiguous", "wckey"),
)


async def record(user: User, job_id: str) -> dict[str, Any]:
    """The record of a job."""
    async with user.session.get(f"/v1/clusters/{user.cluster}/slurm/v0.0.45/job/{job_id}") as answer:
        found: dict[str, Any] = json.loads(await answer.text())["jobs"][0]
        return found


def same_fields(found: dict[str, Any]) -> dict[str, Any]:
    """The fields of `SAME`. sbatch itself writes a relative path below the job's folder, which Slurm does later."""
    inside = found["standard_error"].removeprefix(f"{found['current_working_directory']}/")
    return {name: found[name] for name in SAME} | {"standard_error": inside}
