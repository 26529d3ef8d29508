"""The fields of squeue: by letters for `-o`, and by names for `-O`."""

from collections.abc import Callable, Mapping

from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.notation import states
from clusterra_cli.slurm_commands.notation.columns import Field
from clusterra_cli.slurm_commands.notation.times import span
from clusterra_cli.slurm_commands.records import count, infinite, number, part, text

NORMAL = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R"
START = "%.18i %.9P %.8j %.8u %.2t %.19S %.6D %20Y %R"
HELP = "aFKBokOIXEexfGgiAWcmdjyNCDhPpQqrRnvYzsHSTtVJLlMUuwZ"
"""The letters in the order of `squeue --helpformat`."""
LONG = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R"


def _text(name: str, nothing: str = "(null)") -> Callable[[Job], str]:
    return lambda job: job.text(name, nothing)


def _count(name: str) -> Callable[[Job], str]:
    return lambda job: job.count(name)


def _moment(name: str) -> Callable[[Job], str]:
    return lambda job: job.moment(name)


def _any_or(name: str) -> Callable[[Job], str]:
    """A number, or `*` where it is not set."""
    return lambda job: "*" if number(job.record, name) is None else job.count(name)


def _shape(job: Job) -> str:
    names = ("sockets_per_node", "cores_per_socket", "threads_per_core")
    return ":".join("*" if number(job.record, each) is None else job.count(each) for each in names)


def _end(job: Job) -> str:
    if job.base == "RUNNING" and infinite(job.record, "time_limit"):
        return "NONE"
    return job.moment("end_time")


def _task(job: Job) -> str:
    if job.task_id is not None and job.array_id:
        return str(job.task_id)
    return job.shown_tasks or "N/A"


def _core_spec(job: Job) -> str:
    value = count(job.record, "core_spec")
    threads = count(job.record, "thread_spec")
    if value and value < 0x7FFE:
        return str(value)
    return f"{threads} Threads" if 0 < threads < 0x7FFE else "N/A"


def _priority(job: Job) -> str:
    return f"{count(job.record, 'priority') / 0xFFFFFFFF:.14f}"


def _contiguous(job: Job) -> str:
    return "1" if job.record.get("contiguous") else "0"


_LETTERS: Mapping[str, tuple[str, Callable[[Job], str]]] = {
    "a": ("ACCOUNT", _text("account")),
    "A": ("JOBID", lambda job: str(job.id)),
    "b": ("TRES_PER_NODE", _text("tres_per_node", "N/A")),
    "B": ("EXEC_HOST", _text("batch_host", "n/a")),
    "c": ("MIN_CPUS", _count("minimum_cpus_per_node")),
    "C": ("CPUS", _count("cpus")),
    "d": ("MIN_TMP_DISK", _count("minimum_tmp_disk_per_node")),
    "D": ("NODES", lambda job: str(job.node_count)),
    "e": ("END_TIME", _end),
    "E": ("DEPENDENCY", _text("dependency")),
    "f": ("FEATURES", _text("features")),
    "F": ("ARRAY_JOB_ID", lambda job: str(job.array_id or job.id)),
    "g": ("GROUP", lambda job: job.group),
    "G": ("GROUP", _count("group_id")),
    "h": ("OVER_SUBSCRIBE", lambda job: job.shared),
    "H": ("SOCKETS_PER_NODE", _any_or("sockets_per_node")),
    "i": ("JOBID", lambda job: job.full_id),
    "I": ("CORES_PER_SOCKET", _any_or("cores_per_socket")),
    "j": ("NAME", _text("name", "")),
    "J": ("THREADS_PER_CORE", _any_or("threads_per_core")),
    "k": ("COMMENT", _text("comment")),
    "K": ("ARRAY_TASK_ID", _task),
    "l": ("TIME_LIMIT", lambda job: job.limit),
    "L": ("TIME_LEFT", lambda job: job.left),
    "m": ("MIN_MEMORY", lambda job: job.memory),
    "M": ("TIME", lambda job: span(job.elapsed_seconds)),
    "n": ("REQ_NODES", _text("required_nodes", "")),
    "N": ("NODELIST", _text("nodes", "")),
    "o": ("COMMAND", _text("command")),
    "O": ("CONTIGUOUS", _contiguous),
    "p": ("PRIORITY", _priority),
    "P": ("PARTITION", _text("partition", "")),
    "q": ("QOS", _text("qos")),
    "Q": ("PRIORITY", _count("priority")),
    "r": ("REASON", lambda job: job.reason),
    "R": ("NODELIST(REASON)", lambda job: job.nodes_or_reason),
    "s": ("SLUID", lambda job: text(part(job.record, "step_id"), "sluid")),
    "S": ("START_TIME", _moment("start_time")),
    "t": ("ST", lambda job: states.short(job.state)),
    "T": ("STATE", lambda job: job.state),
    "u": ("USER", lambda job: job.user),
    "U": ("UID", _count("user_id")),
    "v": ("RESERVATION", _text("resv_name")),
    "V": ("SUBMIT_TIME", _moment("submit_time")),
    "w": ("WCKEY", _text("wckey")),
    "W": ("LICENSES", _text("licenses")),
    "x": ("EXC_NODES", _text("excluded_nodes", "")),
    "X": ("CORE_SPEC", _core_spec),
    "y": ("NICE", _count("nice")),
    "Y": ("SCHEDNODES", _text("scheduled_nodes")),
    "z": ("S:C:T", _shape),
    "Z": ("WORK_DIR", _text("current_working_directory", "")),
}

_UNCUT = frozenset("ACcDdeFGJlLMNnQSUVxy")
"""Numbers, times and lists of nodes are shown whole, whatever the width."""
LETTERS: Mapping[str, Field[Job]] = {
    letter: Field(header, value, letter not in _UNCUT) for letter, (header, value) in _LETTERS.items()
}
