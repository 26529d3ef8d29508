"""Mails about real jobs: `--mail-type` of a script and of the fields of a job, to the address of its owner only."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from mail_server import GUARD_SECONDS, SENDER, MailServer, mail_server

NOTIFICATIONS = "/v1/users/me/notifications"


@pytest.fixture(scope="module")
async def server() -> AsyncIterator[MailServer]:
    async with mail_server() as running:
        yield running


@pytest.fixture(scope="module")
async def lab(server: MailServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    options = LabOptions(ScalingPolicy(idle_seconds=30.0), environment=server.environment)
    async with stack(tmp_path_factory.mktemp("mails"), options) as running:
        yield running


async def profile(user: User) -> Any:
    async with user.session.get("/v1/users/me") as answer:
        return await answer.json()


@pytest.fixture
async def grace(lab: Stack) -> AsyncIterator[User]:
    async with lab.user("grace@acme.example") as user:
        yield user


async def test_a_job_mails_its_owner_at_its_end_and_nobody_else(
    lab: Stack, server: MailServer, ada: User, grace: User
) -> None:
    address = (await profile(ada))["email"]
    await grace.submit("#!/bin/sh\nfalse\n", {"name": "quiet"})

    ended = await ada.submit("#!/bin/sh\n#SBATCH --mail-type=END,FAIL\ntrue\n", {"name": "align"})
    await server.has(1)
    failed = await ada.submit("#!/bin/sh\nexit 3\n", {"name": "align", "mail_type": ["FAIL"], "mail_user": address})
    await server.has(2)

    where = f"[{lab.cluster.tenant}/{lab.cluster.cluster}]"
    first, second = server.to(address)
    assert first["Subject"].startswith(f"{where} Job {ended.job_id} align: completed after ")
    assert second["Subject"].startswith(f"{where} Job {failed.job_id} align: failed after ")
    assert second["Subject"].endswith(" (FAILED)")
    assert first["From"] == f"Clusterra <{SENDER}>"
    assert first["To"] == address
    assert first["Auto-Submitted"] == "auto-generated"
    text = second.get_content()
    assert "Exit code: 3" in text
    assert "--mail-type=FAIL" in text
    assert not any("quiet" in subject for subject in server.subjects())
    assert len(server.mails) == 2


async def test_what_has_no_effect_is_warned_of_and_the_job_runs(lab: Stack, server: MailServer, ada: User) -> None:
    before = len(server.mails)
    script = "#!/bin/sh\n#SBATCH --mail-type=TIME_LIMIT_80,END --mail-user=somebody@else.example\ntrue\n"

    body = {"script": script, "job": {"environment": ["PATH=/usr/bin:/bin"], "name": "strange"}}
    async with ada.session.post(f"/v1/clusters/{ada.cluster}/jobs/submit", json=body) as answer:
        submitted = await answer.json()
    await server.has(before + 1)

    assert submitted["warnings"] == [
        "--mail-user is left out: mails go to your own address only",
        "--mail-type=TIME_LIMIT_80 has no effect: no such mails are sent",
    ]
    assert server.mails[before][0] == "ada@acme.example"
    assert "strange: completed" in server.mails[before][1]["Subject"]


async def test_plain_sbatch_inside_the_cluster_mails_the_owner_and_no_address_that_the_job_names(
    lab: Stack, server: MailServer, ada: User
) -> None:
    user, before = SlurmUser(name=ada.profile.name, uid=ada.profile.uid, gid=ada.profile.uid), len(server.mails)
    options = ("--job-name=plain", "--mail-type=BEGIN,END", "--mail-user=eve@else.example")

    await lab.slurm.sbatch(user, "#!/bin/sh\ntrue\n", *options)
    await server.has(before + 2)

    assert {to for to, _ in server.mails} == {"ada@acme.example"}
    assert ["plain: started" in each or "plain: completed" in each for each in server.subjects()[before:]] == [True] * 2


async def test_a_person_who_chose_it_hears_of_a_failure_without_any_option(
    lab: Stack, server: MailServer, ada: User, grace: User
) -> None:
    async with grace.session.put(NOTIFICATIONS, json={"jobs_failed": True}) as answer:
        told = await answer.json()
    before = len(server.mails)

    await grace.submit("#!/bin/sh\ntrue\n", {"name": "good"})
    await ada.submit("#!/bin/sh\nfalse\n", {"name": "others"})

    async def is_told() -> bool:
        # The choice counts a minute after she was last looked up at the latest.
        await grace.submit("#!/bin/sh\nfalse\n", {"name": "bad"})
        return bool(server.to("grace@acme.example"))

    await until(is_told, seconds=GUARD_SECONDS, what="a mail to grace", every=5.0)

    assert (told["enabled"], told["address"]) == (True, "grace@acme.example")
    assert all("bad: failed" in each["Subject"] for each in server.to("grace@acme.example"))
    assert not [each for each in server.subjects()[before:] if "others" in each or "good" in each]


async def test_a_heterogeneous_job_mails_once(lab: Stack, server: MailServer, ada: User) -> None:
    job = {"environment": ["PATH=/usr/bin:/bin"], "name": "pair", "memory_per_cpu": 100}
    script = "#!/bin/sh\n#SBATCH --mail-type=END\ntrue\n"
    before = len(server.to("ada@acme.example"))

    async def has(count: int) -> None:
        # Those to grace, about jobs of the test before, may still come.
        mails = partial(server.to, "ada@acme.example")
        await until(lambda: len(mails()) >= before + count, seconds=GUARD_SECONDS, what=f"{count} mails", every=0.1)

    path = f"/v1/clusters/{ada.cluster}/jobs/submit"
    async with ada.session.post(path, json={"script": script, "jobs": [job, {**job, "mail_type": ["END"]}]}) as answer:
        made = await answer.json()
        assert answer.status in (200, 201), made
    await has(1)
    after = await ada.submit("#!/bin/sh\n#SBATCH --mail-type=END\ntrue\n", {"name": "last"})
    await has(2)

    subjects = [each["Subject"].partition("] ")[2] for each in server.to("ada@acme.example")[before:]]
    assert subjects[0].startswith(f"Job {made['job_id']} pair: completed")
    assert subjects[1].startswith(f"Job {after.job_id} last: completed")
