"""`srun` where there is no allocation: a job of one command, whose output is shown as it is written.

Inside of a job Slurm's own srun is there, and starts steps; this one only submits.
"""

import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import suppress

from clusterra.client import Client
from clusterra.errors import ClusterraError

from clusterra_cli.getopt import Given, Options
from clusterra_cli.job_script import from_script
from clusterra_cli.slurm_commands import sbatch
from clusterra_cli.slurm_commands.command_lines import asked_about, read
from clusterra_cli.slurm_commands.failures import CommandFailed, Refused
from clusterra_cli.slurm_commands.gateway import Gateway
from clusterra_cli.slurm_commands.job_end import exit_code_of
from clusterra_cli.slurm_commands.own_clusters import chosen_clusters
from clusterra_cli.slurm_commands.printing import complain
from clusterra_cli.usage import WrongUsage

_OF_TASKS = {"label": "l", "unbuffered": "u", "exact": "", "quit-on-interrupt": "", "disable-status": "X"}
"""Options that change how srun shows its tasks: those without a value are passed on to the srun in the job."""
_OF_TASKS_WITH_VALUE = {"cpu-bind": "", "kill-on-bad-exit": "K", "mpi": ""}
OPTIONS = Options(
    "srun",
    {
        **sbatch.OPTIONS.takes,
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
    words = read(OPTIONS, arguments, first_word_ends=True)
    if asked_about(OPTIONS, words):
        return 0
    if not words.others:
        raise CommandFailed("srun: fatal: No command given to execute.")
    if "SLURM_JOB_ID" in os.environ:
        raise CommandFailed("srun: error: inside of a job use Slurm's own srun: it starts steps")
    own = {*_OF_TASKS, *_OF_TASKS_WITH_VALUE}
    passed = [
        f"--{each.name}" + ("" if each.value is None else f"={each.value}")
        for each in words.options
        if each.name in own
    ]
    options = [Given(each.name, each.value) for each in words.options if each.name not in own | sbatch.NOT_SENT]
    script = f"#!/bin/sh\nexec srun {shlex.join([*passed, *words.others])}\n"
    try:
        job = from_script(script, words.others[:1], options, os.environ)
    except WrongUsage as error:
        raise CommandFailed(f"srun: error: {error}") from None
    gateway = Gateway()
    chosen_clusters("srun", words, gateway)
    try:
        answer = gateway.jobs_api("POST", "submit", {"script": job.script, "job": job.job})
    except Refused as error:
        raise CommandFailed(f"srun: error: Unable to allocate resources: {error}") from None
    job_id = str(answer["job_id"])
    try:
        _follow(gateway, job_id)
        return exit_code_of(gateway, job_id)
    except KeyboardInterrupt:
        # As at srun, an interrupt ends the job.
        with suppress(Refused):
            gateway.jobs_api("DELETE", job_id)
        raise


def _follow(gateway: Gateway, job_id: str) -> None:
    """Show the output until the job ends."""
    complain(f"srun: job {job_id} queued and waiting for resources")
    try:
        with Client(gateway.url, cluster=gateway.cluster) as client:
            for piece in client.job(job_id).follow():
                sys.stdout.write(piece)
                sys.stdout.flush()
    except ClusterraError as error:
        complain(f"srun: error: the output cannot be followed: {error}")
