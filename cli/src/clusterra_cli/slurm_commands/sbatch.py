"""`sbatch`: submits a script, which stands in a file, on stdin, or in `--wrap`."""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clusterra_cli.getopt import Given, Options, Words, split
from clusterra_cli.job_script import JobScript, from_script, from_wrapped
from clusterra_cli.sbatch_options import SBATCH
from clusterra_cli.slurm_commands.failures import UNKNOWN, CommandFailed, Refused
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.notation.hostlists import compressed
from clusterra_cli.slurm_commands.own_clusters import chosen_clusters
from clusterra_cli.slurm_commands.reads.job_end import exit_code_of
from clusterra_cli.slurm_commands.reads.recent_submits import note_submit
from clusterra_cli.slurm_commands.submits.sbatch_spool import deliver_before, deliver_spooled
from clusterra_cli.slurm_commands.submits.script_options import exported, taken_out
from clusterra_cli.slurm_commands.terminal.command_lines import asked_about, read
from clusterra_cli.slurm_commands.terminal.printing import complain, write_line
from clusterra_cli.usage import WrongUsage

OPTIONS = Options(
    "sbatch",
    {name: takes for name, (_, takes) in SBATCH.items()} | {"get-user-env": "optional", "spool": "none"},
    {letter: name for name, (letter, _) in SBATCH.items() if letter},
    {"cluster": "clusters", "tasks-per-node": "ntasks-per-node"},
    whole=frozenset({"spool"}),
)
SPOOL = "CLUSTERRA_SPOOL"
"""A variable that stands for --spool, if it is not empty and not 0."""
MAX_SCRIPT_BYTES = 4 * 1024 * 1024
"""A longer script is refused here; the gateway has a bound of its own."""
WRONG_OPTION = 255
"""The exit code for an option that does not exist."""
NOT_SENT = frozenset({"clusters", "get-user-env", "propagate", "wait", "nodefile", "parsable", "quiet", "verbose"}) | {
    "spool"
}
"""Options of the command, and those that mean nothing where no login shell submits."""
_VARIABLES = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_ARRAY_INX": "array",
    "SBATCH_CHDIR": "chdir",
    "SBATCH_CLUSTERS": "clusters",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_CPUS_PER_GPU": "cpus-per-gpu",
    "SBATCH_DEPENDENCY": "dependency",
    "SBATCH_DISTRIBUTION": "distribution",
    "SBATCH_ERROR": "error",
    "SBATCH_EXCLUSIVE": "exclusive",
    "SBATCH_EXPORT": "export",
    "SBATCH_GPUS": "gpus",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_GPUS_PER_TASK": "gpus-per-task",
    "SBATCH_GRES": "gres",
    "SBATCH_GRES_FLAGS": "gres-flags",
    "SBATCH_HINT": "hint",
    "SBATCH_IGNORE_PBS": "ignore-pbs",
    "SBATCH_INPUT": "input",
    "SBATCH_JOB_NAME": "job-name",
    "SBATCH_MEM_PER_CPU": "mem-per-cpu",
    "SBATCH_MEM_PER_GPU": "mem-per-gpu",
    "SBATCH_MEM_PER_NODE": "mem",
    "SBATCH_NO_KILL": "no-kill",
    "SBATCH_NO_REQUEUE": "no-requeue",
    "SBATCH_OPEN_MODE": "open-mode",
    "SBATCH_OUTPUT": "output",
    "SBATCH_OVERCOMMIT": "overcommit",
    "SBATCH_PARTITION": "partition",
    "SBATCH_QOS": "qos",
    "SBATCH_REQUEUE": "requeue",
    "SBATCH_RESERVATION": "reservation",
    "SBATCH_SIGNAL": "signal",
    "SBATCH_SPREAD_JOB": "spread-job",
    "SBATCH_THREADS_PER_CORE": "threads-per-core",
    "SBATCH_TIMELIMIT": "time",
    "SBATCH_USE_MIN_NODES": "use-min-nodes",
    "SBATCH_WAIT": "wait",
    "SBATCH_WAIT_ALL_NODES": "wait-all-nodes",
    "SBATCH_WCKEY": "wckey",
}
"""Variables that stand for options, and give way to those of the command line."""


def main(arguments: Sequence[str]) -> int:
    """Submit a job, and with --wait return its exit code. Raises CommandFailed."""
    try:
        words = read(OPTIONS, arguments, first_word_ends=True)
    except CommandFailed as failed:
        raise CommandFailed(str(failed), WRONG_OPTION) from None
    if asked_about(OPTIONS, words):
        return 0
    if words.has("test-only"):
        raise CommandFailed("sbatch: error: --test-only is not supported over HTTP: see `clusterra submit --estimate`")
    words, job = _job(words)
    if words.has("spool") and words.has("wait"):
        raise _wrong("--spool and --wait exclude each other: nobody knows when the network is back")
    gateway = Gateway()
    if words.has("spool") or (os.environ.get(SPOOL, "") not in ("", "0") and not words.has("wait")):
        return _spooled(words, job, gateway)
    named = chosen_clusters("sbatch", words, gateway)
    deliver_before(words, gateway)
    try:
        answer = gateway.jobs_api("POST", "submit", {"script": job.script, "job": job.job})
    except Refused as error:
        raise CommandFailed(job.placed(refused_lines(error)), failure_code()) from None
    job_id = str(answer.get("job_id", ""))
    if not job_id.isdecimal():
        raise CommandFailed(refused_lines(Refused(UNKNOWN)), failure_code())
    note_submit(gateway, job_id)
    if words.has("verbose"):
        for warning in (*job.warnings, *answer.get("warnings", ())):
            complain(f"sbatch: warning: {job.placed(warning)}")
    print_job_id(words, job_id, named)
    return exit_code_of(gateway, job_id) if words.has("wait") else 0


def _spooled(words: Words, job: JobScript, gateway: Gateway) -> int:
    """Submit through the spool. A spooled submit has no job id yet: then nothing goes to stdout."""
    try:
        job_id = deliver_spooled(words, job, gateway)
    except Refused as error:
        raise CommandFailed(job.placed(refused_lines(error)), failure_code()) from None
    if job_id is not None:
        print_job_id(words, job_id, split(words.last("clusters", os.environ.get("SLURM_CLUSTERS")) or ""))
    return 0


def print_job_id(words: Words, job_id: str, named: Sequence[str]) -> None:
    """Print the one line of a submit. `named`: the cluster, if the caller named it."""
    if not words.has("quiet") or words.has("parsable"):
        suffix = f";{named[0]}" if named and words.has("parsable") else f" on cluster {named[0]}" if named else ""
        write_line(f"{job_id}{suffix}" if words.has("parsable") else f"Submitted batch job {job_id}{suffix}")


def refused_lines(error: Refused) -> str:
    """What is printed for a refused submit: the gateway's own reason, where it is not Slurm's, and Slurm's sentence."""
    meaning, reason = str(error), error.reason
    if not error.number:
        meaning, reason = "Unspecified error", meaning
    own = f"sbatch: error: {reason}\n" if reason else ""
    return f"{own}sbatch: error: Batch job submission failed: {meaning}"


def _job(words: Words) -> tuple[Words, JobScript]:
    """The job, and the command line with the options of the command that stand in the script. Raises CommandFailed."""
    words = Words((*_of_environment(os.environ), *words.options), words.others)
    sent = [each for each in words.options if each.name not in NOT_SENT] + _nodes_of_file(words)
    wrapped = words.last("wrap")
    try:
        if wrapped is not None:
            if words.others:
                raise _wrong("Script arguments not permitted with --wrap option")
            return words, from_wrapped(wrapped, sent, os.environ)
        script, of_command = taken_out(_script(words.others[0] if words.others else "", words.last("chdir")))
        job = from_script(script, words.others or ("sbatch",), sent, os.environ, exported(script))
    except WrongUsage as error:
        raise _wrong(str(error)) from None
    return Words((*words.options, *of_command), words.others), job


def _of_environment(environment: Mapping[str, str]) -> list[Given]:
    """The options that variables stand for."""
    return [
        Given(name, None if SBATCH[name][1] == "none" else environment[variable] or None)
        for variable, name in _VARIABLES.items()
        if variable in environment
    ]


def _nodes_of_file(words: Words) -> list[Given]:
    path = words.last("nodefile")
    if path is None:
        return []
    try:
        return [Given("nodelist", compressed(Path(path).read_text().split()))]
    except (OSError, UnicodeDecodeError):
        raise _wrong(f"Unable to open file {path}") from None


def _script(name: str, directory: str | None) -> str:
    """The whole script. Raises CommandFailed for one that sbatch refuses."""
    try:
        if name in ("", "-"):
            raw = sys.stdin.buffer.read(MAX_SCRIPT_BYTES + 1)
        else:
            with _found(name, directory).open("rb") as file:
                raw = file.read(MAX_SCRIPT_BYTES + 1)
    except OSError:
        raise _wrong(f"Unable to open file {name}") from None
    if not raw:
        raise _wrong("Batch script is empty!")
    if len(raw) > MAX_SCRIPT_BYTES:
        raise _wrong("Batch job submission failed: Pathname of a file, directory or other parameter too long")
    if not raw.startswith(b"#!"):
        raise _wrong("This does not look like a batch script: its first line must begin with #!")
    if b"\0" in raw:
        raise _wrong("The batch script contains a NULL character")
    if b"\r\n" in raw:
        raise _wrong("Batch script contains DOS line breaks (\\r\\n)")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _wrong("The batch script is not UTF-8") from None


def _found(name: str, directory: str | None) -> Path:
    """The file that a name means: as it is, in the folder of the job if that is here, or a program of PATH."""
    for place in (Path(name), Path(directory or ".") / name):
        if place.exists():
            return place
    return Path(shutil.which(name) or name) if "/" not in name else Path(name)


def _wrong(text: str) -> CommandFailed:
    return CommandFailed(f"sbatch: error: {text}", failure_code())


def failure_code() -> int:
    """The exit code of a submit that failed: 1, or what SLURM_EXIT_ERROR says."""
    given = os.environ.get("SLURM_EXIT_ERROR", "")
    return int(given) if given.isdecimal() and int(given) < 256 else 1
