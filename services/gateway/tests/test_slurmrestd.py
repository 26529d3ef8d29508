"""Clients made for slurmrestd: their headers, bodies and errors, and what the gateway makes of them."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.rpc.slurm_jobs import Hold, SendSignal, Update
from clusterra_gateway.slurmrestd.submission import is_unset
from gateway_world import World
from people_world import make_token

API = "/v1/clusters/main/slurm/v0.0.45"
DATABASE = "/v1/clusters/main/slurmdb/v0.0.45"
JOB = {"environment": ["PATH=/bin"]}
TOKEN = "X-SLURM-USER-TOKEN"
UNSET = {"set": False, "infinite": False, "number": 0}


@pytest.fixture
async def token(world: World) -> str:
    made = await make_token(await world.login("ada@acme.example"))
    return str(made["token"])


@pytest.fixture
async def client(world: World, token: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A program that sends its token as clients of slurmrestd do."""
    headers = {"X-SLURM-USER-TOKEN": token, "X-SLURM-USER-NAME": "root"}
    async with aiohttp.ClientSession(world.url, headers=headers) as session:
        yield session


async def told(client: aiohttp.ClientSession, method: str, path: str, **more: Any) -> tuple[int, dict[str, Any]]:
    async with client.request(method, path, **more) as answer:
        assert answer.content_type == "application/json", await answer.text()
        body: dict[str, Any] = await answer.json()
        assert {"errors", "warnings", "meta"} <= body.keys()
        return answer.status, body


@pytest.mark.parametrize(("header", "value"), [(TOKEN, "{token}"), ("Authorization", "Bearer {token}")])
async def test_a_token_comes_in_either_header_and_says_alone_who_calls(
    world: World, token: str, header: str, value: str
) -> None:
    headers = {header: value.format(token=token), "X-SLURM-USER-NAME": "root"}

    async with aiohttp.ClientSession(world.url, headers=headers) as program:
        statuses = [(await told(program, "GET", f"{API}/{path}"))[0] for path in ("ping/", "ping")]

    assert statuses == [200, 200]
    assert {request.viewer.user.name for request in world.acme.rests} == {"ada"}


async def test_two_tokens_and_an_unknown_one_are_refused(
    world: World, client: aiohttp.ClientSession, token: str
) -> None:
    two, _ = await told(client, "GET", f"{API}/ping/", headers={"Authorization": f"Bearer {token}"})
    async with aiohttp.ClientSession(world.url, headers={TOKEN: "nonsense"}) as stranger:
        unknown, refused = await told(stranger, "GET", f"{API}/jobs/")

    assert (two, unknown) == (401, 401)
    assert (refused["jobs"], refused["errors"][0]["error"]) == ([], "unauthenticated")


@pytest.mark.parametrize("method", ["POST", "DELETE"])
async def test_what_is_not_passed_on_is_refused_whatever_its_query(client: aiohttp.ClientSession, method: str) -> None:
    status, refused = await told(client, method, f"{API}/nodes/?update_time=&flags=")

    assert (status, refused["errors"][0]["error"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("changes", "status", "changed"),
    [
        ({"nice": {"set": True, "infinite": False, "number": 7}, "begin_time": {}, "name": ""}, 200, {"nice": 7}),
        ({"nice": {"set": True, "infinite": True, "number": 0}}, 400, None),
        ({"nice": False}, 400, None),
        ({"name": {"number": 7}}, 400, None),
    ],
)
async def test_a_change_takes_slurms_numbers_and_unset_fields(
    world: World, client: aiohttp.ClientSession, changes: dict[str, Any], status: int, changed: dict[str, Any] | None
) -> None:
    async with client.get("/v1/users/me", headers={"Authorization": f"Bearer {client.headers[TOKEN]}"}) as answer:
        world.acme.add_job("7", uid=(await answer.json())["uid"])

    answered, _ = await told(client, "POST", f"{API}/job/7", json=changes)

    assert answered == status
    sent = [each.change.changes.model_dump(exclude_none=True) for each in world.acme.changes]  # type: ignore[union-attr]
    assert sent == ([] if changed is None else [changed])


async def test_a_list_of_many_parts_is_one_body(world: World, client: aiohttp.ClientSession) -> None:
    for number in range(1, 6):
        world.acme.add_job(str(number))
    world.acme.add_job("7", user="bob", uid=29999)

    _, listed = await told(client, "GET", f"{API}/jobs/")

    assert listed["jobs"] == [{"job_id": number} for number in range(1, 6)]
    assert (listed["last_update"]["number"], len(world.acme.rests)) == (7, 5)


async def test_a_body_whose_parts_end_early_breaks_off(world: World, client: aiohttp.ClientSession) -> None:
    for number in range(1, 6):
        world.acme.add_job(str(number))
    whole = world.acme._rest

    async def broken(subject: Any, request: Any) -> Any:
        if request.after is not None:
            world.acme.jobs.clear()
        return await whole(subject, request)

    world.acme._rest = broken  # type: ignore[assignment, method-assign]
    await world.acme.stop_serving()
    await world.acme.serve(world.client)

    with pytest.raises(aiohttp.ClientError):
        await told(client, "GET", f"{API}/jobs/")


@pytest.mark.parametrize(
    "body",
    [
        {"script": "#!/bin/sh\n", "job": JOB},
        {"job": JOB | {"script": "#!/bin/sh\n"}},
        {"jobs": [JOB | {"script": "#!/bin/sh\n"}]},
        {"script": "#!/bin/sh\n", "job": JOB | {"contiguous": False, "delay_boot": UNSET, "mail_user": ""}},
    ],
)
async def test_a_job_is_submitted_as_the_caller(
    world: World, client: aiohttp.ClientSession, body: dict[str, Any]
) -> None:
    status, submitted = await told(client, "POST", f"{API}/job/submit", json=body)

    assert (status, submitted["job_id"], submitted["step_id"], submitted["errors"]) == (200, 1, "batch", [])
    assert [(each.user.name, each.script) for each in world.acme.submits] == [("ada", "#!/bin/sh\n")]


async def test_fields_that_are_ours_are_left_out_with_a_warning(world: World, client: aiohttp.ClientSession) -> None:
    job = JOB | {"user_id": "root", "comment": "clusterra:user=root", "time_limit": {"set": True, "number": 5}}

    status, submitted = await told(client, "POST", f"{API}/job/submit", json={"script": "#!/bin/sh\n", "job": job})

    assert (status, [each["description"].split()[0] for each in submitted["warnings"]]) == (200, ["comment", "user_id"])
    (sent,) = world.acme.submits
    assert (sent.user.uid, sent.job.time_limit) == (20001, 5)


async def test_false_says_something_in_a_known_field(world: World, client: aiohttp.ClientSession) -> None:
    job = JOB | {"requeue": False, "hold": True, "overcommit": False}

    status, _ = await told(client, "POST", f"{API}/job/submit", json={"script": "#!/bin/sh\n", "job": job})

    assert status == 200
    (sent,) = world.acme.submits
    assert (sent.job.requeue, sent.job.hold, sent.job.kill_on_node_fail) == (False, True, None)


async def test_fields_that_are_not_accepted_are_named(world: World, client: aiohttp.ClientSession) -> None:
    job = JOB | {"x11": ["FORWARD_ALL_NODES"], "reboot": True}

    status, refused = await told(client, "POST", f"{API}/job/submit", json={"script": "#!/bin/sh\n", "job": job})

    assert (status, [each["source"] for each in refused["errors"]]) == (400, ["#/job/reboot", "#/job/x11"])
    assert world.acme.submits == []


@pytest.mark.parametrize(
    "body",
    [
        {"script": "#!/bin/sh\n", "jobs": [JOB, JOB | {"tasks": 2, "delay_boot": 3}]},
        {"jobs": [JOB | {"script": "#!/bin/sh\n"}, JOB | {"tasks": 2, "delay_boot": 3, "script": ""}]},
    ],
)
async def test_several_jobs_are_the_components_of_one(
    world: World, client: aiohttp.ClientSession, body: dict[str, Any]
) -> None:
    status, submitted = await told(client, "POST", f"{API}/job/submit", json=body)

    assert (status, submitted["job_id"]) == (200, 1)
    assert [each["description"].split()[0] for each in submitted["warnings"]] == ["delay_boot"]
    (sent,) = world.acme.submits
    assert [each.job.tasks for each in sent.components] == [2]


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([JOB, JOB | {"reboot": True}], "reboot is not accepted"),
        ([JOB] * 17, "at most 16 items"),
        ([JOB, JOB | {"script": "#!/bin/sh\n"}], "component 1 has a script of its own"),
        ([JOB, {}], "environment"),
    ],
)
async def test_components_that_cannot_be_are_named(
    world: World, client: aiohttp.ClientSession, jobs: list[dict[str, Any]], text: str
) -> None:
    body = {"script": "#!/bin/sh\n", "jobs": jobs}

    status, refused = await told(client, "POST", f"{API}/job/submit", json=body)

    assert status == 400, refused
    assert text in str(refused["errors"])
    assert world.acme.submits == []


async def test_a_submit_with_a_key_makes_one_job(world: World, client: aiohttp.ClientSession) -> None:
    for _ in range(2):
        _, submitted = await told(
            client,
            "POST",
            f"{API}/job/submit",
            json={"script": "#!/bin/sh\n", "job": JOB},
            headers={"Idempotency-Key": "one-and-only"},
        )
        assert submitted["job_id"] == 1
    assert len(world.acme.submits) == 1


async def test_ones_own_jobs_are_cancelled_alone_and_together(world: World, client: aiohttp.ClientSession) -> None:
    world.acme.add_job("7")
    world.acme.add_job("8", user="bob", uid=29999)

    alone, _ = await told(client, "DELETE", f"{API}/job/7")
    of_bob, _ = await told(client, "DELETE", f"{API}/job/8")
    _, together = await told(client, "DELETE", f"{API}/jobs/", json={"jobs": ["7", "8", "x"]})

    assert (alone, of_bob) == (200, 404)
    assert [each["step_id"] for each in together["status"]] == ["8", "x"]
    assert world.acme.cancelled == ["7", "7"]


async def test_a_job_is_signalled_updated_and_held(world: World, client: aiohttp.ClientSession) -> None:
    world.acme.add_job("7")
    changes = {"name": "new", "comment": "mine", "hold": True, "time_limit": {"set": True, "number": 9}}

    signal, _ = await told(client, "DELETE", f"{API}/job/7?signal=SIGUSR1&flags=BATCH_JOB")
    update, _ = await told(client, "POST", f"{API}/job/7", json=changes)
    unknown, _ = await told(client, "POST", f"{API}/job/7", json={"priority": 1})

    assert (signal, update, unknown) == (200, 200, 400)
    signalled, updated, held = [each.change for each in world.acme.changes]
    assert (signalled, held) == (SendSignal(signal="USR1", batch_only=True), Hold())
    assert isinstance(updated, Update)
    assert (updated.changes.name, updated.changes.time_limit) == ("new", 9)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{API}/reconfigure/", 403),
        ("GET", f"{API}/job/7/requeue", 403),
        ("GET", f"{API}/conf", 403),
        ("POST", f"{API}/node/w1", 403),
        ("DELETE", f"{API}/node/w1", 403),
        ("POST", f"{API}/job/allocate", 403),
        ("GET", f"{DATABASE}/users/", 403),
        ("POST", f"{DATABASE}/accounts/", 403),
        ("DELETE", f"{DATABASE}/account/x", 403),
        ("GET", f"{API}/nonsense", 404),
        ("GET", "/v1/clusters/main/slurm/v0.0.41/ping/", 404),
        ("GET", f"{API}/jobs/?show=all", 400),
        ("GET", f"{DATABASE}/jobs/?show_job_environment=true", 400),
    ],
)
async def test_what_does_not_pass_is_refused_with_its_reason(
    client: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    answered, refused = await told(client, method, path, json={} if method != "GET" else None)

    assert answered == status
    assert refused["errors"][0]["description"]


def test_values_that_say_nothing_are_told_from_those_that_do() -> None:
    assert all(map(is_unset, (None, False, "", [], {}, UNSET)))
    assert not any(map(is_unset, (0, True, "0", ["x"], {"set": True, "number": 0}, {"number": 1})))
