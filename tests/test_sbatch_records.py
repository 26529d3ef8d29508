"""Our sbatch and Slurm's own on the recorded requests, and on scripts of public reports: the same jobs and refusals."""

import asyncio
import json
import shlex
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from command_line import Ran
from job_cases import CASES, JobCase
from slurm_command_pairs import Commands
from slurm_records import SAME, record, same_fields

REPORTED = Path(__file__).parents[1].parent / "shared" / "cases" / "sbatch"
SCRIPT = "#!/bin/sh\ntrue\n"
AT_ONCE = 3
NOT_COMPARED = {
    "heterogeneous": "components are separate submits of the API",
    "heterogeneous and held": "components are separate submits of the API",
    "reservation to come": "a reservation of another lab",
}
_TOO_LARGE = "Slurm takes a held job of any size; the gateway refuses what no worker could run"
_EXTRA = "the gateway keeps --extra for itself"
DIFFERENT = {
    "more gpus of the job than any node has": _TOO_LARGE,
    "too many cpus": _TOO_LARGE,
    "too many tasks for a node": _TOO_LARGE,
    "too much memory": _TOO_LARGE,
    "too many gpus of a node": _TOO_LARGE,
    "unknown gpu type": _TOO_LARGE,
    "named placeholder": "no job runs on a placeholder",
    "extra": _EXTRA,
    "extra that is no comparison": _EXTRA,
    "extra that the node has not": _EXTRA,
    "cores per socket": "not every release of slurmrestd has it",
}
"""Requests that are answered otherwise, and why."""
UNREADABLE = ("02-nbsp-after-sbatch", "17-nodes-reversed-502")
NOT_READING = {
    "19-nul-in-text": "the case has a NUL, which no command line can have",
    "20-output-user-and-node": "about the output of a job",
    "21-output-file-cannot-be-opened": "about the end of a job",
    "22-node-fail-signal": "about the end of a job",
    "23-why-of-suspended": "about a job's state",
}


@pytest.fixture(scope="module")
def lab(site_lab: Stack) -> Stack:
    return site_lab


@pytest.fixture
async def commands(lab: Stack, ada: User, tmp_path: Path) -> AsyncIterator[Commands]:
    owner = SlurmUser(name=ada.profile.name, uid=ada.profile.uid, gid=ada.profile.uid)
    async with ada.api_token("sbatch-records") as token:
        variables = {"CLUSTERRA_URL": lab.gateway_url, "CLUSTERRA_TOKEN": token, "CLUSTERRA_CLUSTER": ada.cluster}
        variables["CLUSTERRA_CONFIG"] = str(tmp_path / "config.toml")
        yield Commands(lab.slurm, owner, variables)


def sentence(ran: Ran) -> str:
    """Slurm's sentence of a refusal: the last one counts."""
    return ran.err.strip().rpartition("sbatch: error: ")[2].removeprefix("Batch job submission failed: ")


async def difference(ada: User, commands: Commands, script: str, options: Sequence[str]) -> str:
    """How two submits of the same differ; empty where they do not."""
    argv = ("sbatch", "--parsable", "--hold", *options)
    real, own = await commands.slurms(*argv, stdin=script), await commands.ours(*argv, stdin=script)
    if real.code or own.code:
        same = (real.code, sentence(real)) == (own.code, sentence(own))
        return "" if same else f"Slurm: {real}; ours: {own}"
    jobs = [each.out.strip() for each in (real, own)]
    expected, found = [same_fields(await record(ada, each)) for each in jobs]
    await commands.ours("scancel", *jobs)
    names = [name for name in SAME if expected[name] != found[name]]
    return "; ".join(f"{name}: Slurm {expected[name]}, ours {found[name]}" for name in names)


async def test_recorded_requests_make_the_same_jobs(ada: User, commands: Commands) -> None:
    fill = (await commands.ours("sbatch", "--parsable", "--hold", "-J", "fill", stdin=SCRIPT)).out.strip()
    turns, different = asyncio.Semaphore(AT_ONCE), dict[str, str]()

    async def compare(case: JobCase) -> None:
        async with turns:
            options = shlex.split(case.options.format(fill=fill))
            if found := await difference(ada, commands, SCRIPT, options):
                different[case.name] = found

    async with asyncio.TaskGroup() as all_cases:
        for case in CASES:
            if case.name not in NOT_COMPARED:
                all_cases.create_task(compare(case))

    unexpected = {name: found for name, found in different.items() if name not in DIFFERENT}
    assert not unexpected, "\n".join(f"{name}: {found}" for name, found in unexpected.items())
    assert set(different) == set(DIFFERENT)


@pytest.mark.skipif(not REPORTED.is_dir(), reason=f"the cases are kept beside the repository, in {REPORTED.name}")
async def test_scripts_of_public_reports_make_the_same_jobs(ada: User, commands: Commands) -> None:
    different = {}
    for case in sorted(REPORTED.glob("*.json")):
        if case.stem in NOT_READING:
            continue
        script = json.loads(case.read_text())["request"]["script"]
        found = await difference(ada, commands, script, ())
        # Both refuse a script that sbatch cannot read, each in its own words.
        if found and not (case.stem in UNREADABLE and "code=255" in found and "ours: Ran(code=1," in found):
            different[case.stem] = found

    assert not different, "\n".join(f"{name}: {found}" for name, found in different.items())
