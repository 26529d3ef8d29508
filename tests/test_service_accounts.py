"""A service account's job on real Slurm, under the account's own uid."""

from aiohttp import ClientSession
from clusterra_lab.demo.observer import Observer
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import Profile, User
from clusterra_lab.stack.stack import Stack

ACCOUNTS = "/v1/service-accounts"


async def test_a_job_of_a_service_account_runs_under_its_own_uid(lab: Stack, ada: User, observer: Observer) -> None:
    async with ada.session.post(ACCOUNTS, json={"name": "pipeline"}) as answer:
        assert answer.status == 201, await answer.text()
        account = await answer.json()
    async with ada.session.post(f"{ACCOUNTS}/pipeline/keys", json={"name": "nightly"}) as answer:
        assert answer.status == 201, await answer.text()
        key = (await answer.json())["token"]

    async with ClientSession(lab.gateway_url, headers={"Authorization": f"Bearer {key}"}) as session:
        profile = Profile(name=account["name"], uid=account["uid"], email="")
        pipeline = User(session, profile, lab.cluster.cluster)
        job = await pipeline.submit("#!/bin/bash\nid -u\n", {"name": "nightly", "memory_per_cpu": 2048})
        await until(lambda: (job.job_id, "job.completed") in observer.job_events, seconds=120, what="the job's end")

        assert await pipeline.output(job.job_id) == f"{account['uid']}\n"
    assert account["uid"] != ada.profile.uid
