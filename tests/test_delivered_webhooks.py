"""Webhooks on the whole lab: an admin makes one, and the events of real jobs reach a receiver, signed and in order."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from standardwebhooks import Webhook
from webhook_receiver import Received, Receiver, receiver

PATH = "/v1/webhooks"
SCRIPT = "#!/bin/sh\ntrue\n"


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A lab whose services may call this machine."""
    environment = {"CLUSTERRA_WEBHOOK_NETWORKS": '["127.0.0.0/8"]'}
    options = LabOptions(ScalingPolicy(idle_seconds=30.0), environment=environment)
    async with stack(tmp_path_factory.mktemp("webhooks"), options) as running:
        yield running


async def call(user: User, method: str, path: str = "", content: object = None, status: int = 200) -> Any:
    async with user.session.request(method, f"{PATH}{path}", json=content) as answer:
        assert answer.status == status, await answer.text()
        return None if status == 204 else await answer.json()


def told(secret: str, received: Received) -> tuple[str, str]:
    """The kind and the subject of an event whose signature is right."""
    event = Webhook(secret).verify(received.body, received.headers)
    assert event == json.loads(received.body)
    return event["data"]["kind"], event["subject"]


async def has(receiving: Receiver, count: int) -> list[Received]:
    await until(lambda: len(receiving.received) >= count, seconds=120, what=f"{count} messages", every=0.1)
    assert len(receiving.received) == count
    return receiving.received


async def test_events_of_jobs_reach_a_receiver_and_again_after_a_replay(lab: Stack, ada: User) -> None:
    async with receiver() as receiving:
        wanted = {"name": "CI", "url": f"{receiving.address}/take", "kinds": ["job.submitted", "job.completed"]}
        made = await call(ada, "POST", "", {**wanted, "clusters": [lab.cluster.cluster]}, 201)
        place, secret = f"/{made['id']}", made["secret"]

        first = await ada.submit(SCRIPT, {"name": "first"})
        test, *events = await has(receiving, 3)
        assert told(secret, test) == ("webhook.test", made["id"])
        assert [told(secret, each) for each in events] == [
            ("job.submitted", first.job_id),
            ("job.completed", first.job_id),
        ]
        assert all(each.headers["content-type"] == "application/cloudevents+json" for each in receiving.received)

        rotated = await call(ada, "POST", f"{place}/secret", {"overlap_seconds": 3600}, 201)
        receiving.refuses = True
        second = await ada.submit(SCRIPT, {"name": "second"})

        async def retries() -> bool:
            return bool((await call(ada, "GET", place))["state"] == "retrying")

        await until(retries, seconds=120, what="a failed attempt", every=0.2)
        receiving.refuses = False
        later = (await has(receiving, 5))[3:]
        for each in (secret, rotated["secret"]):
            assert [told(each, message) for message in later] == [
                ("job.submitted", second.job_id),
                ("job.completed", second.job_id),
            ]

        log = (await call(ada, "GET", f"{place}/deliveries"))["deliveries"]
        assert [each["message_id"] for each in log] == [each.id for each in reversed([*events, *later])]
        assert log[1]["attempts"] > 1
        assert all(each["last"]["delivered"] for each in log)

        await call(ada, "POST", f"{place}/replay", {"after": made["created_at"]})
        again = (await has(receiving, 9))[5:]
        assert [each.id for each in again] == [each.id for each in (*events, *later)]

        await call(ada, "DELETE", place, status=204)


async def test_an_address_of_this_network_is_refused_unless_it_is_allowed(lab: Stack, ada: User) -> None:
    for url in ("https://10.0.0.1/in", "https://169.254.169.254/latest", "http://192.168.1.1/in"):
        async with ada.session.post(PATH, json={"name": "CI", "url": url}) as answer:
            problem = await answer.json()
        assert (answer.status, problem["type"]) == (422, "/v1/problems/not-delivered"), problem
        assert "address" in problem["detail"]
