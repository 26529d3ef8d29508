"""Scripts drawn from the grammar of sbatch(1): the real sbatch makes the same job of each, or refuses it too.

`make test-sbatch CASES=20000` draws more of them.
"""

import asyncio
import json
import os
import re
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import aiohttp
from clusterra_contracts.identity import SlurmUser, now
from clusterra_contracts.rpc.slurm import JobDescription
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.control_plane import CommandFailed
from clusterra_proxy.requests.sbatch_fields import sbatch_fields
from clusterra_proxy.slurmrestd.errors import SlurmFailed
from clusterra_proxy.slurmrestd.slurmctld import Slurmctld
from clusterra_sbatch.applying import apply
from clusterra_sbatch.job_values import check_values
from clusterra_sbatch.problems import InvalidScript
from sbatch_grammar import draw
from slurm_world import SlurmWorld
from test_sbatch import job_record

CASES = int(os.environ.get("SBATCH_CASES", "300"))
SEED = int(os.environ.get("SBATCH_SEED", "1"))
AT_ONCE = 4

type Fields = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """What became of a script: a job with these fields, or a refusal."""

    fields: Fields
    refused: str = ""


def same(name: str, ours: Any, theirs: Fields) -> bool:
    """Whether a field is the same in both jobs, apart from its notation.

    Numbers of GPUs are written out here, which is what the job gets in both. An empty `--gres=` is text to sbatch,
    which hides the job's class from `job_submit.lua`.
    """
    if name.startswith("tres_per_"):
        return plain_tres(ours) == plain_tres(theirs.get(name))
    if name == "extra" and re.search(r"gres/(,|$)", theirs.get("tres_per_node") or ""):
        return True
    return bool(ours == theirs.get(name))


def plain_tres(text: str | None) -> list[str]:
    """A list of resources in one notation."""
    items = (item.replace("=", ":") for item in (text or "").split(",") if item not in {"", "gres/"})
    return [re.sub(r"([0-9]+)k$", lambda found: str(int(found[1]) * 1024), item) for item in items]


async def by_the_library(slurm: SlurmWorld, slurmctld: Slurmctld, token: str, script: str) -> tuple[str, str]:
    """The id of the job that the proxy would make of a script, or why it is refused."""
    job = JobDescription(environment=("PATH=/usr/bin:/bin",), hold=True)
    try:
        applied = apply(script, job, now=now())
        check_values(applied.job)
    except (InvalidScript, ValueError) as error:
        return "", str(error)
    described = {"current_working_directory": slurm.shared_path} | sbatch_fields(applied)
    try:
        return str((await slurmctld.submit(token, script, described)).job_id), ""
    except SlurmFailed as error:
        return "", str(error)


async def by_sbatch(slurm: SlurmWorld, user: SlurmUser, script: str) -> tuple[str, str]:
    """The id of the job that sbatch makes of a script, or why it is refused."""
    try:
        return await slurm.cluster.sbatch(user, script, "--hold"), ""
    except CommandFailed as error:
        return "", str(error)


async def test_a_drawn_script_makes_the_same_job_as_by_sbatch(
    slurm: SlurmWorld, workers: None, alice: SlurmUser
) -> None:
    random = Random(SEED)
    token = slurm.token(alice, seconds=24 * 3600)
    slots = asyncio.Semaphore(AT_ONCE)
    different: dict[str, Any] = {}
    async with slurm.slurmctld() as slurmctld, aiohttp.ClientSession() as http:

        async def outcome(job_id: str, refused: str) -> Outcome:
            return Outcome(await job_record(slurm, http, job_id) if job_id else {}, refused)

        async def outcomes(script: str) -> list[Outcome] | None:
            """Those of both ways; None while slurmctld remembers too many jobs."""
            found = [await by_the_library(slurm, slurmctld, token, script), await by_sbatch(slurm, alice, script)]
            both = [await outcome(*each) for each in found]
            if made := [job_id for job_id, _ in found if job_id]:
                await slurm.cluster.run("scancel", *made)
            return None if any("MaxJobCount" in each.refused for each in both) else both

        async def compare(lines: str) -> None:
            script = f"#!/bin/sh\n{lines}\ntrue\n"
            async with slots:
                ours, theirs = await until(
                    partial(outcomes, script), seconds=900, what="room for jobs in slurmctld", every=5
                )
            if bool(ours.refused) != bool(theirs.refused):
                different[lines] = {"here": ours.refused, "sbatch": theirs.refused}
            elif fields := {
                name: (value, theirs.fields.get(name))
                for name, value in ours.fields.items()
                if not same(name, value, theirs.fields)
            }:
                different[lines] = fields

        await asyncio.gather(*(compare(draw(random)) for _ in range(CASES)))

    assert not different, json.dumps(different, indent=1)
