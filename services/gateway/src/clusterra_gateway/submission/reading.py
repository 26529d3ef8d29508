"""Reads a job to submit from a request: which fields count, which are refused and why, and how large it may be.

`test_slurmrestd_fields.py` goes through slurmrestd's own document: each of its fields is accepted, or stands here.
"""

from typing import Any

from aiohttp import web
from clusterra_contracts.rpc.job_fields import FurtherFields
from clusterra_contracts.rpc.slurm import MAX_COMPONENTS, JobDescription
from clusterra_contracts.rpc.slurm_jobs import FurtherChanges, JobChanges
from pydantic_core import from_json

from clusterra_gateway.http.requests.errors import TooLarge
from clusterra_gateway.http.requests.field_errors import EACH, Hints
from clusterra_gateway.http.requests.json_body import MAX_BODY_BYTES, BodyBounds, read_json
from clusterra_gateway.http.requests.parameters import checked, parsed
from clusterra_gateway.submission.models import AnyScript, HeterogeneousSubmission, Submission, TemplateSubmission

ACCEPTED = frozenset(JobDescription.model_fields) | frozenset(FurtherFields.model_fields)
"""The fields of a job that count."""
CHANGEABLE = frozenset(JobChanges.model_fields) | frozenset(FurtherChanges.model_fields)
"""The fields of a job that can be changed after its submit, besides `hold`."""

_CLUSTERRA = "Clusterra sets it"
_OF_SRUN = "it binds or tunes the tasks of srun; give it to srun in the script"
_SAMPLES = "the cluster sets what it samples, and how often"
_SHELL = "limits and plugins of a login shell do not reach a worker"

LEFT_OUT: dict[str, str] = {
    **dict.fromkeys(("user_id", "group_id", "comment", "admin_comment", "extra"), _CLUSTERRA),
    **dict.fromkeys(("account_gather_frequency", "profile"), _SAMPLES),
    **dict.fromkeys(("cpu_binding", "cpu_binding_flags", "cpu_frequency", "memory_binding", "tres_bind"), _OF_SRUN),
    **dict.fromkeys(("memory_binding_type", "tres_freq", "reserve_ports"), _OF_SRUN),
    **dict.fromkeys(("rlimits", "spank_environment"), _SHELL),
    "delay_boot": "Slurm boots no machine here",
    "distribution_plane_size": "the size stands in `distribution`, such as plane=2",
}
"""Fields without which the job is the same job: what a client sends in them is left out, and the answer warns."""

_OPERATORS = "only operators set it; use `nice` to lower the priority"
_ALLOCATION = "it belongs to an allocation without a script"
_SLURM = "Slurm sets it"
_FEDERATION = "the request names the cluster, which belongs to no federation"
_ONE_BOARD = "a worker has one board; use `sockets_per_node` or `cpus_per_task`"
_RELEASES = "not every release of slurmrestd has it"
_SYSTEM = "workers keep no cores or threads for the system"
_TOPOLOGY = "workers have no network topology"
_X11 = "a batch job has no display to forward"

REFUSED: dict[str, str] = {
    **dict.fromkeys(("priority", "site_factor"), _OPERATORS),
    **dict.fromkeys(("allocation_node_list", "allocation_node_port", "immediate"), _ALLOCATION),
    **dict.fromkeys(("job_id", "step_id", "end_time", "hetjob_group"), _SLURM),
    **dict.fromkeys(("clusters", "cluster_constraint"), _FEDERATION),
    **dict.fromkeys(("minimum_boards_per_node", "minimum_sockets_per_board", "tasks_per_board"), _ONE_BOARD),
    **dict.fromkeys(("cores_per_socket", "memory_update_delay", "memory_update_margin"), _RELEASES),
    **dict.fromkeys(("core_specification", "thread_specification"), _SYSTEM),
    **dict.fromkeys(("network", "segment_size"), _TOPOLOGY),
    **dict.fromkeys(("x11", "x11_magic_cookie", "x11_target_host", "x11_target_port"), _X11),
    **dict.fromkeys(("container_id", "container_type"), "only a bundle can be run: use `container`"),
    "burst_buffer": "the cluster has no burst buffers",
    "crontab": "a job is queued once; let your own scheduler submit it again",
    "mcs_label": "the cluster has no security labels",
    "power_flags": "Slurm does not manage the power of workers",
    "reboot": "a worker is not rebooted for a job",
    "selinux_context": "workers have no SELinux",
}
"""Fields that change the job, and cannot be allowed."""

_SLURM_KEEPS = "slurmrestd answers with success and changes nothing: submit the job again"
_CLASS = "whether workers are closed to the job follows from what it asked for at its submit: submit it again"
_TASKS = "Slurm would change the number and not the job's CPUs: change `tasks`, or submit the job again"
_UNCHECKED = "Slurm does not check after the submit whether any worker has it: submit the job again"
_OPERATORS_CHANGE = "Slurm lets only its operators change it: submit the job again"

UNCHANGEABLE: dict[str, str] = {
    **REFUSED,
    **dict.fromkeys(
        (
            *("argv", "array", "batch_features", "container", "current_working_directory", "distribution"),
            *("environment", "flags", "kill_on_node_fail", "kill_warning_delay", "kill_warning_flags"),
            *(
                "kill_warning_signal",
                "mail_type",
                "mail_user",
                "oom_kill_step",
                "open_mode",
                "overcommit",
                "script",
                "wait_all_nodes",
            ),
        ),
        _SLURM_KEEPS,
    ),
    **dict.fromkeys(
        (
            *("maximum_nodes", "minimum_nodes", "nodes", "cpus_per_tres", "memory_per_tres", "ntasks_per_tres"),
            *("reservation", "required_nodes", "tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task"),
        ),
        _CLASS,
    ),
    **dict.fromkeys(("cpus_per_task", "maximum_cpus", "minimum_cpus", "minimum_cpus_per_node"), _TASKS),
    **dict.fromkeys(
        (
            *("required_switches", "sockets_per_node", "tasks_per_core", "tasks_per_socket", "threads_per_core"),
            *("temporary_disk_per_node", "wait_for_switch"),
        ),
        _UNCHECKED,
    ),
    "account": "slurmrestd answers with success and changes nothing, or as if it were overloaded: submit the job again",
    **dict.fromkeys(("contiguous", "deadline", "shared", "tasks_per_node"), _OPERATORS_CHANGE),
}
"""Fields that cannot be changed after the submit."""

MAX_SCRIPT_BYTES = 512 * 1024
MAX_SUBMISSION_BYTES = 768 * 1024
"""A submit and what the gateway adds to it must fit into NATS' payload limit of 1 MiB."""

BOUNDS = BodyBounds(MAX_BODY_BYTES, 10_000)
"""A job has a few lists of at most 1,000 items each."""

_OF_TEMPLATE = "a job from a template has `template_id`, `params` and `inputs`, and no `script`"
_SET_BY_CLUSTERRA = "leave it out: Clusterra sets it, because a job runs as the person who submits it"
HINTS: Hints = {
    **{("job", name): f"leave it out: {reason}" for name, reason in (LEFT_OUT | REFUSED).items()},
    ("script",): '`script` must be a string at the top level: {"script": "#!/bin/bash\\n...", "job": {...}}',
    ("job",): '`job` must have an environment at least: {"environment": ["PATH=/usr/bin:/bin"]}',
    ("job", "script"): "move `script` out of `job`, to the top level of the body",
    ("job", "nodes"): '`nodes` must be a string, such as "1" or "2-4"',
    ("job", "environment"): '`environment` must be a list with at least one variable, such as ["PATH=/usr/bin:/bin"]',
    ("job", "user_id"): _SET_BY_CLUSTERRA,
    ("job", "group_id"): _SET_BY_CLUSTERRA,
    ("job", "comment"): "leave it out: Clusterra keeps its own note in the comment",
    **dict.fromkeys([("template",), ("params",), ("inputs",), ("sbatch_override",)], _OF_TEMPLATE),
    ("jobs",): "send one job in `job`, or the components of a heterogeneous job in `jobs`",
}
COMPONENT_HINTS: Hints = {
    ("script",): HINTS["script",],
    ("jobs",): f"`jobs` must have 2 to {MAX_COMPONENTS} components; send a single job in `job`",
    **dict.fromkeys([("stage_in",), ("stage_out",)], "files are staged for a single job, in `job`"),
    **{("jobs", EACH, *path[1:]): hint for path, hint in HINTS.items() if path[0] == "job"},
}
STEP_HINTS: Hints = {("steps", EACH, *path): hint for path, hint in HINTS.items() if path != ("jobs",)}
"""The hints for the steps of a run."""


async def read_any_submission(request: web.Request) -> AnyScript | TemplateSubmission:
    """Reads any of the bodies. That of a template has a `template_id` and no script. Raises as `read_submission`."""
    content = await read_json(request, BOUNDS)
    found = _object_in(content)
    if "template_id" in found and "script" not in found:
        return checked(TemplateSubmission, found)
    return _with_script(content, found)


async def read_submission(request: web.Request) -> AnyScript:
    """Reads the submission in the body. Raises InvalidRequest, UnsupportedMedia, TooLarge."""
    content = await read_json(request, BOUNDS)
    return _with_script(content, _object_in(content))


def _object_in(content: bytes) -> dict[str, Any]:
    """The object that a body is; empty for any other body, which its model then refuses."""
    try:
        found = from_json(content)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _with_script(content: bytes, found: dict[str, Any]) -> AnyScript:
    several = "jobs" in found and "job" not in found
    submission: AnyScript = (
        parsed(content, HeterogeneousSubmission, COMPONENT_HINTS) if several else parsed(content, Submission, HINTS)
    )
    check_size(submission)
    return submission


def check_size(submission: AnyScript) -> None:
    """Raises TooLarge for a submission that does not fit into a message."""
    if len(submission.script.encode()) > MAX_SCRIPT_BYTES or len(submission.canonical()) > MAX_SUBMISSION_BYTES:
        raise TooLarge(
            f"the script is larger than {MAX_SCRIPT_BYTES // 1024} KiB, or the whole submission is larger than "
            f"{MAX_SUBMISSION_BYTES // 1024} KiB",
            hint="keep large programs and data on the shared file system, and call them from the script",
        )
