"""The job hook: its JSON, its spool, and real jobs whose events wait while the gateway is away."""

import asyncio
import json
import os
import shutil
import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clusterra_contracts.agent_http import KEY_HEADER
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.events import Event, JobFact
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.machine.process import until
from clusterra_lab.slurm.config import SCRIPTS
from clusterra_lab.slurm.directory import SLURM_UID
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from clusterra_runtime.nats.direct import replay
from clusterra_runtime.nats.registry import Registry, put_binding

HOOK = Path(__file__).parents[1] / "hooks" / "clusterra-job-hook"
FOLDER = "job-hook"
INSIDE = f"/mnt/efs/{FOLDER}"
GIB = 1024
HOSTILE = 'a "b" \\ $(touch /tmp/x) `id` \t\x01 \u00e4\u2603\U0001f600'
WRAPPER = f"""#!/bin/bash
export CLUSTERRA_JOB_HOOK_CONF={INSIDE}/inside.conf
began=${{EPOCHREALTIME/./}}
{SCRIPTS}/clusterra-job-hook
status=$?
echo "$status $((${{EPOCHREALTIME/./}} - began))" >>{INSIDE}/calls
exit $status
"""


@dataclass(frozen=True)
class Sites:
    """A lab whose slurmctld runs the hook, and the sender beside it: the lab's Slurm has no curl."""

    lab: Stack
    folder: Path

    def send(self) -> int:
        """Send once what is spooled."""
        environment = {"PATH": os.environ["PATH"], "CLUSTERRA_JOB_HOOK_CONF": str(self.folder / "outside.conf")}
        return subprocess.run([HOOK, "send"], env=environment, timeout=240, check=False).returncode

    def spooled(self) -> list[Path]:
        return sorted((self.folder / "spool" / "new").glob("*.json"))

    async def told(self) -> list[Event]:
        """All events of jobs in the stream."""
        messages = replay(self.lab.bus, EVENT.name, subjects.events_of(self.lab.cluster, "job.*"))
        return [Event.model_validate_json(message.body) async for message in messages]


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sites]:
    if os.geteuid() != 0:
        pytest.skip("the lab needs root, because its Slurm runs jobs as several users")
    directory = tmp_path_factory.mktemp("hooks") / "lab"
    slurm = directory / "state" / "slurm"
    scripts, folder = slurm / "scripts", slurm / "shared" / FOLDER
    scripts.mkdir(parents=True)
    (folder / "spool").mkdir(parents=True)
    shutil.copy(HOOK, scripts)
    (scripts / "hook").write_text(WRAPPER)
    (scripts / "hook").chmod(0o755)
    for each in (folder, folder / "spool"):
        os.chown(each, SLURM_UID, SLURM_UID)
    settings = (f"PrologSlurmctld={SCRIPTS}/hook", "JobCompType=jobcomp/script", f"JobCompLoc={SCRIPTS}/hook")
    options = LabOptions(ScalingPolicy(idle_seconds=600.0), settings=settings)
    async with stack(directory, options) as lab:
        key = folder / "key"
        key.write_text(f'header = "{KEY_HEADER}: {lab.parts.agent_key_file.read_text().strip()}"\n')
        key.chmod(0o600)
        common = f"url={lab.gateway_url}\ntenant={lab.cluster.tenant}\ncluster={lab.cluster.cluster}\n"
        (folder / "inside.conf").write_text(f"{common}key_file={INSIDE}/key\nspool={INSIDE}/spool\n")
        (folder / "outside.conf").write_text(f"{common}key_file={key}\nspool={folder}/spool\n")
        yield Sites(lab, folder)


async def attach(lab: Stack) -> None:
    """Say that the Slurm of the cluster is the site's own."""
    registry = Registry()
    await registry.start(lab.bus)
    try:
        await until(lambda: registry.get(lab.cluster) is not None, seconds=240, what="the binding")
        binding = registry.get(lab.cluster)
        assert binding is not None
        await put_binding(lab.bus, lab.cluster, binding.model_copy(update={"attached": True}))
    finally:
        await registry.stop()


async def test_every_event_of_real_jobs_is_told_once_although_the_gateway_was_away(site: Sites) -> None:
    lab = site.lab
    async with lab.user("ada@acme.example") as ada:
        first = await ada.submit("#!/bin/bash\ntrue\n", {"cpus_per_task": 1, "memory_per_cpu": GIB})
        await until(lambda: _is_told(site, first.job_id, "job.completed"), seconds=240, what="a job by the proxy")
        user = SlurmUser(name="ada", uid=ada.profile.uid, gid=ada.profile.uid)
    # From here on nobody but the hook tells of jobs.
    lab.services["proxy"].kill()
    before = [await _submit(lab, user, "echo 1")]
    await until(lambda: site.spooled() != [], seconds=240, what="something in the spool")
    lab.services["gateway"].kill()
    assert site.send() != 0, "the gateway is away"
    kept = site.spooled()
    assert kept
    jobs = [
        *before,
        *[await _submit(lab, user, "sleep 0.2", f"--job-name={HOSTILE}{number}") for number in range(3)],
        await _submit(lab, user, "exit 3"),
        array := await _submit(lab, user, "true", "--array=1-3"),
        pending := await _submit(lab, user, "true", "--begin=now+1hour"),
    ]
    assert (await lab.slurm.run("scancel", pending)).returncode == 0
    again = await _submit(lab, user, f"mkdir {lab.slurm.shared_path}/again || exit 0; sleep 300")
    await until((lab.slurm.shared_dir / "again").exists, seconds=240, what="a job that runs")
    assert (await lab.slurm.run("scontrol", "requeue", again)).returncode == 0
    jobs.append(again)
    tasks = [f"{array}_{number}" for number in (1, 2, 3)]
    ends = {each: "job.completed" for each in (*jobs, *tasks) if each != array}
    ends |= {jobs[4]: "job.failed", pending: "job.cancelled"}
    await until(lambda: _ended(site) >= ends.keys(), seconds=240, what="the ends of all jobs in the spool")
    await lab.services["gateway"].start()
    await lab.services["gateway"].ready()

    async def all_sent() -> bool:
        await attach(lab)
        # Two at once, as after two jobs that end together.
        await asyncio.gather(*(asyncio.to_thread(site.send) for _ in range(2)))
        return site.spooled() == []

    await until(all_sent, seconds=240, every=1.0, what="an empty spool")
    assert _refused(site) == []
    expected = Counter(dict.fromkeys(ends.items(), 1))
    expected += Counter((each, "job.running") for each in ends if each != pending)
    expected += Counter((each, "job.submitted") for each in jobs)
    expected += Counter({(again, "job.requeued"): 1, (again, "job.running"): 1})

    found = await site.told()
    assert Counter((event.subject, event.kind) for event in found if event.subject != first.job_id) == expected
    names = {event.data.name for event in await site.told() if event.kind == "job.running"}  # type: ignore[union-attr]
    assert {f"{HOSTILE}{number}" for number in range(3)} <= names

    (failed,) = [event.data for event in found if event.kind == "job.failed"]
    assert isinstance(failed, JobFact)
    assert (failed.exit_code, failed.uid) == (3, user.uid)

    # The proxy knows the ids: what it finds in Slurm now is told already.
    await lab.services["proxy"].start()
    last = await _submit(lab, user, "true")
    await until(lambda: _is_told(site, last, "job.completed"), seconds=240, what="a job by the proxy again")
    await until(lambda: last in _ended(site), seconds=240, what="the last end in the spool")
    assert await until(all_sent, seconds=240, every=1.0, what="an empty spool")
    ids = Counter(event.id for event in await site.told())
    assert {name: times for name, times in ids.items() if times > 1} == {}

    calls = [line.split() for line in (site.folder / "calls").read_text().splitlines()]
    assert {status for status, _ in calls} == {"0"}
    assert max(int(micro) for _, micro in calls) < 1_000_000, "a hook returns within a second"


def _refused(site: Sites) -> list[str]:
    return [each.read_text() for each in (site.folder / "spool" / "rejected").iterdir()]


def _ended(site: Sites) -> set[str]:
    records = [json.loads(each.read_text())["detail"] for each in site.spooled()]
    return {each["job_id"] for each in records if each["ended_at"] is not None}


async def _is_told(site: Sites, job_id: str, kind: str) -> bool:
    return any((event.subject, event.kind) == (job_id, kind) for event in await site.told())


async def _submit(lab: Stack, user: SlurmUser, script: str, *options: str) -> str:
    return await lab.slurm.sbatch(user, f"#!/bin/bash\n{script}\n", "--mem-per-cpu=256", *options)
