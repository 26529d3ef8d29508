"""A job is changed over HTTP on a running lab, and its history in the archive names who did it."""

import json
from typing import Any

from clusterra_contracts.events import JobActionFact
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User

SCRIPT = "#!/bin/sh\ntrue\n"
LATER = {"begin_time": 4_000_000_000}


async def test_a_job_is_held_released_and_cancelled_by_a_filter(ada: User) -> None:
    jobs = f"/v1/clusters/{ada.cluster}/jobs"
    name = "changed-by-filter"
    job_id = (await ada.submit(SCRIPT, {"name": name, **LATER})).job_id

    async def reason() -> Any:
        async with ada.session.get(f"{jobs}/{job_id}") as answer:
            return (await answer.json())["reason"]

    async def counted() -> bool:
        async with ada.session.get(f"/v1/clusters/{ada.cluster}") as answer:
            queue = (await answer.json())["queue"]
        return queue is not None and not queue["stale"] and bool(queue["pending"])

    await until(counted, seconds=60, what="the job in the summary of the queue", every=0.2)

    for verb, held in (("hold", True), ("release", False)):
        async with ada.session.post(f"{jobs}/{job_id}/{verb}") as answer:
            assert answer.status == 204, await answer.text()
        assert (await reason() == "JobHeldUser") is held
    async with ada.session.post(f"{jobs}/{job_id}/requeue") as answer:
        assert (answer.status, (await answer.json())["code"]) == (409, 2024)

    for dry_run, outcome in ((True, "would_cancel"), (False, "cancelled")):
        async with ada.session.post(f"{jobs}/cancel", json={"name": name, "dry_run": dry_run}) as answer:
            told = await answer.json()
        assert [(job["job_id"], job["outcome"]) for job in told["jobs"]] == [(job_id, outcome)]
    assert (await ada.job(job_id)).state == "CANCELLED"

    async def archived() -> bool:
        facts = [event.data for event in await ada.history("action.*") if event.subject == job_id]
        actors = {fact.actor for fact in facts if isinstance(fact, JobActionFact)}
        kinds = [fact.kind for fact in facts]
        return kinds == ["action.hold", "action.release", "action.cancel"] and actors == {ada.profile.name}

    await until(archived, seconds=60, what="the actions in the archive", every=0.2)

    # Ada is an admin of her tenant.
    async with ada.session.get(f"/v1/clusters/{ada.cluster}/audit") as answer:
        entries = [json.loads(line) for line in (await answer.text()).splitlines()]
    mine = [(entry["action"], entry["actor"]) for entry in entries if entry["subject"] == job_id]
    assert mine == [
        (kind, ada.profile.name) for kind in ("job.submitted", "action.hold", "action.release", "action.cancel")
    ]
