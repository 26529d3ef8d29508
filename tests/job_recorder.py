"""Records the answers of a real Slurm to the job cases, with times and ids that are the same each time."""

import json
import re
import shlex
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.node_extra import OPEN
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import start, until
from clusterra_lab.slurm.config import ClusterOptions
from clusterra_lab.slurm.control_plane import CommandFailed, OwnedSlurmCluster, slurm_cluster
from clusterra_proxy.slurmrestd.connector import SlurmrestdConnector
from clusterra_proxy.slurmrestd.records import JobRecord
from clusterra_proxy.slurmrestd.versions import VERSIONS
from job_cases import BUSY, UID, JobCase
from job_site import ACCOUNTING, PLACEHOLDERS, SETTINGS

RECORDED = Path(__file__).parent / "recorded" / "jobs.json"
SUBMITTED_AT = 1_800_000_000
"""Submit time that every recorded job gets, in seconds since the epoch; its other times keep their distance from it."""
FIRST_ID = 100
"""Id that every recorded job, or its first component, gets."""

_ALICE = SlurmUser(name="alice", uid=UID, gid=UID)
_SCRIPT = "#!/bin/sh\nsleep 600\n"
_SETTLED_SECONDS = 20.0
_TIMES = ("submit_time", "eligible_time")
_IDS = ("job_id", "array_job_id", "het_job_id")
_OUTPUT = {"standard_output", "stdout_expanded", "stderr_expanded", "comment", "exit_code", "start_time", "end_time"}
_REPEATED = {"het_job_id_set"}
"""The ids of all components, which their records have one by one."""
_KEPT = sorted(
    JobRecord.model_fields.keys() - _OUTPUT - _REPEATED
    | {"licenses", "qos", "account", "cpus_per_tres", "prefer", "extra"}
)
"""The recorded fields: those that the proxy reads of a waiting job, and some for readers of the file."""


class JobRecorder:
    """Submits the cases one after another, so that no job waits because of another job's priority."""

    def __init__(self, cluster: OwnedSlurmCluster, http: aiohttp.ClientSession) -> None:
        self._cluster = cluster
        self._http = http
        self._fill = ""

    async def record(self, cases: Iterable[JobCase]) -> dict[str, Any]:
        """Return Slurm's answers by case name; cases that need the busy node are submitted last."""
        listed = list(cases)
        answers = {case.name: await self._one(case) for case in listed if case.stage == "no node"}
        busy = [case for case in listed if case.stage == "a busy node"]
        if busy:
            async with self._busy_node():
                answers |= {case.name: await self._one(case) for case in busy}
        return {case.name: answers[case.name] for case in listed}

    async def _one(self, case: JobCase) -> dict[str, Any]:
        submitted = {"options": " : ".join((case.options, *case.components))}
        options = shlex.split(case.options.format(fill=self._fill))
        further = "".join(f"#SBATCH hetjob\n#SBATCH {component}\n" for component in case.components)
        script = _SCRIPT
        if further:
            script, options = _SCRIPT.replace("\n", f"\n#SBATCH {case.options}\n{further}", 1), []
        try:
            job = await self._cluster.sbatch(_ALICE, script, *options)
        except CommandFailed as error:
            return submitted | {
                "refused": str(error).rpartition("error: ")[2].removeprefix("Batch job submission failed: ")
            }
        try:
            if case.then:
                await self._run(*(word.format(job=job) for word in case.then))
            return submitted | {"jobs": await self._settled(job, case)}
        finally:
            await self._cancel(job)

    async def _settled(self, job: str, case: JobCase) -> list[dict[str, Any]]:
        """The job's records once Slurm reports the expected reason, which takes a moment."""

        async def with_reason() -> list[dict[str, Any]] | None:
            jobs = await self._jobs(job)
            waiting = [each["state_reason"] for each in jobs if each["job_state"] == ["PENDING"]]
            return jobs if waiting and set(waiting) == {case.reason} else None

        what = f"{case.name!r} to wait for {case.reason}"
        jobs = await until(with_reason, seconds=_SETTLED_SECONDS, what=what, every=0.05)
        first = min(each["job_id"] for each in jobs)
        return [_normal(each, first) for each in sorted(jobs, key=lambda each: int(each["job_id"]))]

    async def _jobs(self, job: str) -> list[dict[str, Any]]:
        operator = self._cluster.operator
        token = self._cluster.token(operator.name, operator.uid, operator.gid)
        async with self._http.get(VERSIONS[0].slurm(f"job/{job}"), headers={"X-SLURM-USER-TOKEN": token}) as answer:
            jobs: list[dict[str, Any]] = (await answer.json())["jobs"]
            return jobs

    async def _cancel(self, *jobs: str) -> None:
        async def over() -> bool:
            return not (await self._run("squeue", "--noheader", f"--jobs={','.join(jobs)}")).strip()

        await self._run("scancel", *jobs)
        await until(over, seconds=_SETTLED_SECONDS, what="the end of cancelled jobs", every=0.05)

    @asynccontextmanager
    async def _busy_node(self) -> AsyncIterator[None]:
        """Run a worker with a job that uses all licences and the whole QOS, and a reservation for tomorrow."""
        conf = f"CPUs=4 RealMemory=8192 Feature=busy Port={free_port()}"
        argv = [*self._cluster.launcher, "slurmd", "-D", "-Z", "-N", BUSY, "--conf", conf, "--extra", OPEN]
        worker = await start(BUSY, argv, log=self._cluster.log_dir / f"{BUSY}.out")
        try:

            async def idle() -> bool:
                return (await self._run("sinfo", "--noheader", "--nodes", BUSY, "--format=%T")) == "idle\n"

            async def running() -> bool:
                return any(each["job_state"] == ["RUNNING"] for each in await self._jobs(self._fill))

            await until(idle, seconds=_SETTLED_SECONDS, what=BUSY, every=0.05, process=worker)
            reservation = ("accounts=lab", "starttime=now+1day", "duration=60", f"nodes={BUSY}")
            await self._run("scontrol", "create", "reservation", "reservationname=later", *reservation)
            self._fill = await self._cluster.sbatch(
                *(_ALICE, _SCRIPT, "--job-name=fill", "--constraint=busy", "--qos=two", "--licenses=matlab:2"),
                # The job must end before the reservation begins.
                "--time=60",
            )
            await until(running, seconds=_SETTLED_SECONDS, what="the job on the busy node", every=0.05, process=worker)
            yield
            await self._cancel(self._fill)
        finally:
            await worker.stop()

    async def _run(self, *argv: str) -> str:
        done = await self._cluster.run(*argv)
        # squeue fails for a job that slurmctld no longer has.
        if done.returncode and "Invalid job id" not in done.stderr:
            raise CommandFailed(f"{' '.join(argv)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout


@asynccontextmanager
async def job_recorder(directory: Path) -> AsyncIterator[JobRecorder]:
    """Run a recorder with its own Slurm until the block ends. Needs root."""
    async with (
        slurm_cluster(directory, ClusterOptions(settings=SETTINGS)) as cluster,
        aiohttp.ClientSession(cluster.slurmrestd_url, connector=SlurmrestdConnector(limit=2)) as http,
    ):
        recorder = JobRecorder(cluster, http)
        await recorder._run("scontrol", "update", f"nodename={PLACEHOLDERS}", f"extra={OPEN}")
        for change in ACCOUNTING:
            await recorder._run("sacctmgr", "--immediate", *change.split())
        yield recorder


def file_content(answers: dict[str, Any]) -> str:
    """The content of `recorded/jobs.json`, with one line per field."""
    text = json.dumps(answers, indent=1, sort_keys=True)
    return re.sub(r"([\[{])\n *([^\[\]{}]*?)\n *([\]}])", _one_line, text) + "\n"


def _one_line(innermost: re.Match[str]) -> str:
    return innermost[1] + re.sub(r"\n *", " ", innermost[2]) + innermost[3]


def _normal(job: dict[str, Any], first: int) -> dict[str, Any]:
    kept = {name: job[name] for name in _KEPT if name in job and not _empty(job[name])}
    submitted = job["submit_time"]["number"]
    for name in _TIMES:
        if kept.get(name, {}).get("number"):
            # By the minute: sbatch counts from a second that may be over when slurmctld has the job.
            minutes = round((kept[name]["number"] - submitted) / 60)
            kept[name] = kept[name] | {"number": SUBMITTED_AT + 60 * minutes}
    for name in _IDS:
        number = kept.get(name)
        if isinstance(number, int):
            kept[name] = number - first + FIRST_ID
        elif number and number["number"]:
            kept[name] = number | {"number": number["number"] - first + FIRST_ID}
    if "dependency" in kept:
        kept["dependency"] = re.sub(r":\d+", f":{FIRST_ID - 1}", job["dependency"])
    return kept


def _empty(value: Any) -> bool:
    """Whether a value can be left out of the record; a number that is set to 0 cannot."""
    return not value["set"] if isinstance(value, dict) and "set" in value else value in ("", [], False)
