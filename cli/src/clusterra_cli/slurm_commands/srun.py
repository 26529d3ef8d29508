"""`srun` where there is no allocation: a job of one command, whose output is shown as it is written.

Inside of a job Slurm's own srun starts steps: there this one hands the command line over to it.
"""

import os
import shlex
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import TextIO

from clusterra_cli.getopt import Given, Options, Words
from clusterra_cli.job_script import JobScript, from_script
from clusterra_cli.slurm_commands import sbatch
from clusterra_cli.slurm_commands.failures import UNKNOWN, CommandFailed, Refused
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.own_clusters import chosen_clusters
from clusterra_cli.slurm_commands.reads.job_end import exit_code_of
from clusterra_cli.slurm_commands.reads.recent_submits import note_submit
from clusterra_cli.slurm_commands.terminal.command_lines import asked_about, read
from clusterra_cli.slurm_commands.terminal.printing import complain
from clusterra_cli.usage import WrongUsage

ERRORS = "job_%j.err"
"""Where a job writes its errors, so that they are shown on stderr: in the folder of the job."""
_OF_TASKS = {"label": "l", "unbuffered": "u", "exact": "", "quit-on-interrupt": "", "disable-status": "X"}
"""Options that change how srun shows its tasks: those without a value are passed on to the srun in the job."""
_OF_TASKS_WITH_VALUE = {"cpu-bind": "", "kill-on-bad-exit": "K", "mpi": ""}
_OF_BOTH = frozenset({"cpus-per-task"})
"""Options of the job that the srun in it does not take from the job."""
OPTIONS = Options(
    "srun",
    {
        **{name: takes for name, takes in sbatch.OPTIONS.takes.items() if name not in ("spool", "wrap")},
        **dict.fromkeys(_OF_TASKS, "none"),
        **dict.fromkeys(_OF_TASKS_WITH_VALUE, "optional"),
        "cpu-bind": "required",
        "mpi": "required",
    },
    {
        **sbatch.OPTIONS.letters,
        **{letter: name for name, letter in (_OF_TASKS | _OF_TASKS_WITH_VALUE).items() if letter},
    },
    sbatch.OPTIONS.same,
)


def main(arguments: Sequence[str]) -> int:
    """Run a command as a job, and return its exit code. Raises CommandFailed."""
    if "SLURM_JOB_ID" in os.environ:
        _hand_over(arguments)
    words = read(OPTIONS, arguments, first_word_ends=True)
    if asked_about(OPTIONS, words):
        return 0
    if not words.others:
        raise CommandFailed("srun: fatal: No command given to execute.")
    job = _job(words)
    gateway = Gateway()
    chosen_clusters("srun", words, gateway)
    for name in ("SIGTERM", "SIGHUP"):
        # Windows has no SIGHUP.
        if (number := getattr(signal, name, None)) is not None:
            signal.signal(number, _interrupt)
    try:
        answer = gateway.jobs_api("POST", "submit", {"script": job.script, "job": job.job})
    except Refused as error:
        raise CommandFailed(f"srun: error: Unable to allocate resources: {error}") from None
    job_id = str(answer.get("job_id", ""))
    if not job_id.isdecimal():
        raise CommandFailed(f"srun: error: {UNKNOWN}")
    note_submit(gateway, job_id)
    try:
        if not words.has("quiet"):
            complain(f"srun: job {job_id} queued and waiting for resources")
        _follow(gateway, job_id, _streams(words))
        return exit_code_of(gateway, job_id)
    except KeyboardInterrupt:
        # As at srun, an interrupt ends the job.
        try:
            gateway.jobs_api("DELETE", job_id)
            complain(f"srun: job {job_id} is cancelled")
        except Refused as error:
            complain(f"srun: error: job {job_id} goes on ({error}): scancel {job_id}")
        raise


def _hand_over(arguments: Sequence[str]) -> None:
    """Become Slurm's own srun. Raises CommandFailed where there is none on PATH."""
    here = {Path(sys.argv[0]).resolve(), Path(shutil.which("clusterra-slurm") or sys.argv[0]).resolve()}
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        found = shutil.which("srun", path=folder or ".")
        if found is not None and Path(found).resolve() not in here:
            os.execv(found, ["srun", *arguments])  # noqa: S606 - it is Slurm's own
    raise CommandFailed("srun: error: inside of a job Slurm's own srun starts steps, and PATH has none")


def _job(words: Words) -> JobScript:
    own = {*_OF_TASKS, *_OF_TASKS_WITH_VALUE}
    passed = [
        f"--{each.name}" + ("" if each.value is None else f"={each.value}")
        for each in words.options
        if each.name in own | _OF_BOTH
    ]
    options = [Given(each.name, each.value) for each in words.options if each.name not in own | sbatch.NOT_SENT]
    if not words.has("output", "error"):
        options.append(Given("error", ERRORS))
    try:
        return from_script(
            f"#!/bin/sh\nexec srun {shlex.join([*passed, *words.others])}\n", words.others[:1], options, os.environ
        )
    except WrongUsage as error:
        raise CommandFailed(f"srun: error: {error}") from None


def _streams(words: Words) -> Mapping[str, TextIO]:
    """What is shown, and where: what the caller sends to a file is not."""
    shown = {} if words.has("output") else {"stdout": sys.stdout}
    return shown | ({} if words.has("output", "error") else {"stderr": sys.stderr})


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _follow(gateway: Gateway, job_id: str, streams: Mapping[str, TextIO]) -> None:
    """Show the outputs until the job ends."""
    # Daemons, so that an interrupt ends the command at once.
    threads = [Thread(target=_show, args=(gateway, job_id, name, streams[name]), daemon=True) for name in streams]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


def _show(gateway: Gateway, job_id: str, name: str, to: TextIO) -> None:
    from clusterra.client import Client
    from clusterra.errors import ClusterraError

    try:
        with Client(gateway.url, cluster=gateway.cluster) as client:
            for piece in client.job(job_id).follow(stream="stderr" if name == "stderr" else "stdout"):
                to.write(piece)
                to.flush()
    except BrokenPipeError:
        return
    except ClusterraError as error:
        complain(f"srun: error: the output cannot be followed: {error}")
