"""Links to a job: made, listed and revoked by its owner, and what somebody without an account sees by one."""

import asyncio
import json
from datetime import datetime, timedelta
from itertools import combinations

import pytest
from clusterra_contracts.bus.envelope import decode
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.costs import JobCost
from clusterra_gateway.shared_links import links
from clusterra_runtime.nats.direct import replay
from gateway_world import World
from people_world import bearer, make_token, status_with
from shared_link_world import (
    LINKS,
    OUTPUT,
    SCRIPT,
    SHARED,
    SUBMITTED,
    changed_job,
    made_link,
    opened,
    owner_of_a_job,
)

PARTS = ("output", "cost", "why", "script")


async def test_a_link_shows_a_job_to_somebody_without_an_account(world: World) -> None:
    ada = await owner_of_a_job(world)

    made = await made_link(ada, name="for the review")
    shown = json.loads(await opened(world, made["token"]))

    assert made["path"] == f"/shared#{made['token']}"
    assert (made["shows"], made["name"], made["job_id"], made["made_by"]) == (["why"], "for the review", "7", "ada")
    lives = datetime.fromisoformat(made["expires_at"]) - datetime.fromisoformat(made["created_at"])
    assert lives == timedelta(days=7)
    assert (shown["job_id"], shown["name"], shown["state"]) == ("7", "hello", "RUNNING")
    assert (shown["expires_at"], shown["shows"]) == (made["expires_at"], ["why"])
    assert shown["why"]["places"] == [{"kind": "ordered", "shape": "compute-xs"}]
    assert shown["cost"] is None
    assert "review" not in json.dumps(shown)


@pytest.mark.parametrize("shows", [some for size in range(5) for some in combinations(PARTS, size)])
async def test_a_link_shows_what_its_owner_lets_it_show(world: World, shows: tuple[str, ...]) -> None:
    ada = await owner_of_a_job(world)
    world.acme.events.job_costs["7"] = JobCost(runs=1, micro_usd=1_250_000, as_of=now())

    token = (await made_link(ada, shows=[*shows, *shows][:4]))["token"]
    shown = json.loads(await opened(world, token))

    assert shown["shows"] == list(dict.fromkeys([*shows, *shows][:4]))
    assert (shown["cost"] is not None) == ("cost" in shows)
    assert (shown["why"] is not None) == ("why" in shows)
    text = await opened(world, token, OUTPUT, status=200 if "output" in shows else 404)
    assert (text == "hello from the job\n") == ("output" in shows)
    told = json.loads(await opened(world, token, SCRIPT, status=200 if "script" in shows else 404))
    assert (told.get("script") == SUBMITTED) == ("script" in shows)
    assert "review" not in json.dumps(shown)


async def test_a_script_is_not_shown_unless_chosen_nor_after_the_link_was_revoked(world: World) -> None:
    ada = await owner_of_a_job(world)
    usual, chosen = await made_link(ada), await made_link(ada, shows=["script"])

    assert "script" not in usual["shows"]
    refused = json.loads(await opened(world, usual["token"], SCRIPT, status=404))
    assert json.loads(await opened(world, chosen["token"], SCRIPT)) == {"job_id": "7", "script": SUBMITTED}
    async with ada.delete(f"{LINKS}/{chosen['id']}") as answer:
        assert answer.status == 204
    gone = json.loads(await opened(world, chosen["token"], SCRIPT, status=404))

    assert refused["detail"] == "this link does not show the job's script"
    assert gone["detail"] == "this link is wrong, has expired or was revoked"


async def test_a_script_that_is_opened_again_is_not_read_again(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=["script"]))["token"]
    await opened(world, token, SCRIPT)
    del world.acme.scripts["7"]

    assert json.loads(await opened(world, token, SCRIPT))["script"] == SUBMITTED


async def test_a_job_whose_script_slurm_does_not_keep_is_shown_without_it(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=["script"]))["token"]
    del world.acme.scripts["7"]

    refused = json.loads(await opened(world, token, SCRIPT, status=404))

    assert refused["detail"] == "the cluster has no script of this job"
    await opened(world, token)


async def test_a_part_of_the_output_is_read_as_by_the_owner(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=["output"]))["token"]
    stranger = await world.browser()

    async with stranger.get(OUTPUT, headers=bearer(token) | {"Range": "bytes=0-4"}) as answer:
        part = (answer.status, await answer.text(), answer.headers["Content-Range"])
    async with stranger.get(f"{OUTPUT}?after=11", headers=bearer(token)) as answer:
        rest = await answer.text()

    assert part == (206, "hello", "bytes 0-4/19")
    assert rest == "the job\n"
    await opened(world, token, f"{OUTPUT}?after=99", status=416)
    await opened(world, token, f"{OUTPUT}?stream=stderr", status=404)


async def test_the_owner_lists_links_without_secrets_and_revokes_them(world: World) -> None:
    ada = await owner_of_a_job(world)
    made = await made_link(ada, expires_in_seconds=300)
    other = await made_link(ada)

    async with ada.get(LINKS) as answer:
        text = await answer.text()
    listed = json.loads(text)
    assert (listed["total"], {each["id"] for each in listed["links"]}) == (2, {made["id"], other["id"]})
    assert made["token"] not in text
    assert made["token"].rpartition("_")[2] not in text

    await opened(world, made["token"])
    statuses = [(await ada.delete(f"{LINKS}/{made['id']}")).status for _ in range(2)]

    assert statuses == [204, 404]
    await opened(world, made["token"], status=404)
    await opened(world, other["token"])


async def test_a_person_lists_their_links_to_all_jobs_by_pages(world: World) -> None:
    ada = await owner_of_a_job(world)
    grace = await owner_of_a_job(world, "grace@acme.example", "8")
    world.acme.add_job("9", user="ada", uid=world.acme.jobs["7"].uid)
    made = [await made_link(ada, LINKS.replace("7", job), name=job) for job in ("7", "9", "9")]
    await made_link(grace, LINKS.replace("7", "8"))

    async def listed(limit: int) -> list[dict[str, object]]:
        found: list[dict[str, object]] = []
        parameters = {"limit": str(limit)}
        while True:
            async with ada.get("/v1/users/me/links", params=parameters) as answer:
                assert answer.status == 200, await answer.text()
                page = await answer.json()
            assert len(page["links"]) <= limit
            found += page["links"]
            if page["cursor"] is None:
                return found
            parameters["cursor"] = page["cursor"]

    def shown(link: dict[str, object]) -> dict[str, object]:
        return {name: link[name] for name in link if name not in ("token", "path")} | {"cluster_id": "main"}

    for limit in (1, 2, 100):
        assert sorted(await listed(limit), key=str) == sorted(map(shown, made), key=str)
    async with ada.delete(f"{LINKS}/{made[0]['id']}") as answer:
        assert answer.status == 204, await answer.text()
    assert {each["id"] for each in await listed(100)} == {each["id"] for each in made[1:]}
    for wrong in ("limit=0", "limit=101", "cursor=other"):
        async with ada.get(f"/v1/users/me/links?{wrong}") as answer:
            assert answer.status == 400, await answer.text()


async def test_an_admin_lists_and_revokes_the_links_of_others(world: World) -> None:
    ada, boss = await owner_of_a_job(world), await world.login("boss@acme.example")
    made = await made_link(ada)

    async with boss.get(LINKS) as answer:
        assert [each["id"] for each in (await answer.json())["links"]] == [made["id"]]
    assert (await boss.delete(f"{LINKS}/{made['id']}")).status == 204

    await opened(world, made["token"], status=404)


async def test_another_member_sees_makes_and_revokes_no_link(world: World) -> None:
    ada, bob, boss = await owner_of_a_job(world), *[await world.login(f"{who}@acme.example") for who in ("bob", "boss")]
    made = await made_link(ada)

    assert (await bob.get(LINKS)).status == 404
    assert (await bob.delete(f"{LINKS}/{made['id']}")).status == 404
    assert (await bob.post(LINKS, json={})).status == 404
    assert (await boss.post(LINKS, json={})).status == 403, "an admin sees the job, and it is not theirs"
    await opened(world, made["token"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"expires_in_seconds": 299},
        {"expires_in_seconds": 30 * 86_400 + 1},
        {"shows": ["environment"]},
        {"shows": ["output"] * 5},
        {"name": "x" * 65},
        {"name": "a\nb"},
        {"password": "x"},
    ],
)
async def test_a_wrong_request_makes_no_link(world: World, wrong: dict[str, object]) -> None:
    ada = await owner_of_a_job(world)

    assert (await ada.post(LINKS, json=wrong)).status == 400


async def test_the_same_key_makes_one_link_whose_secret_is_not_shown_again(world: World) -> None:
    ada = await owner_of_a_job(world)
    key = {"Idempotency-Key": "12345678"}

    async with ada.post(LINKS, json={}, headers=key) as answer:
        made = await answer.json()
    async with ada.post(LINKS, json={}, headers=key) as answer:
        again = (answer.status, await answer.text())

    assert again[0] == 409
    assert made["id"] in again[1]
    assert made["token"] not in again[1]


async def test_a_job_and_a_person_have_a_bounded_number_of_links(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "MAX_OF_JOB", 2)
    monkeypatch.setattr(links, "MAX_OF_MEMBER", 3)
    ada = await owner_of_a_job(world)
    await owner_of_a_job(world, job_id="8")
    first = await made_link(ada)
    await made_link(ada)

    async with ada.post(LINKS, json={}) as answer:
        assert (answer.status, "the job has 2 links" in await answer.text()) == (409, True)
    of_another = LINKS.replace("/7/", "/8/")
    await made_link(ada, of_another)
    async with ada.post(of_another, json={}) as answer:
        assert (answer.status, "you have 3 links" in await answer.text()) == (409, True)
    assert (await ada.delete(f"{LINKS}/{first['id']}")).status == 204
    await made_link(ada)


async def test_links_that_are_made_at_the_same_time_keep_the_bound(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "MAX_OF_JOB", 2)
    ada = await owner_of_a_job(world)

    answers = await asyncio.gather(*(ada.post(LINKS, json={}) for _ in range(6)))

    assert sorted(each.status for each in answers) == [201] * 2 + [409] * 4
    async with ada.get(LINKS) as answer:
        assert (await answer.json())["total"] == 2


async def test_making_and_revoking_stand_in_the_history_of_the_cluster(world: World) -> None:
    ada, boss = await owner_of_a_job(world), await world.login("boss@acme.example")
    made = await made_link(ada)
    await boss.delete(f"{LINKS}/{made['id']}")

    stored = [each async for each in replay(world.client, "EVENT", "event.acme.main.link.>")]
    facts = [decode(Event, each.body, dict(each.headers)).data for each in stored]

    assert [fact for fact in facts if isinstance(fact, AdminFact) and fact.subject == made["id"]] == [
        AdminFact(kind="link.created", actor="ada", subject=made["id"], detail="7"),
        AdminFact(kind="link.revoked", actor="boss", subject=made["id"], detail="7"),
    ]
    assert all(made["token"].encode() not in each.body for each in stored)


async def test_a_link_that_a_token_makes_ends_with_the_token(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = await make_token(ada, expires_in_seconds=600, scopes=["jobs:write"])
    program = await world.browser()
    async with program.post(LINKS, json={}, headers=bearer(token["token"])) as answer:
        made = await answer.json()
    await opened(world, made["token"])

    assert made["expires_at"] == token["expires_at"]
    assert (await ada.delete(f"/v1/users/me/tokens/{token['id']}")).status == 204

    await opened(world, made["token"], status=404)


async def test_a_job_that_has_ended_is_explained_without_what_only_its_owner_knows(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=["why"]))["token"]
    changed_job(
        world, state="FAILED", reason="FilesNotOpened", standard_output="/fs/secret", ended_at=now(), exit_code=1
    )

    shown = json.loads(await opened(world, token))

    assert (shown["state"], shown["exit_code"], shown["why"]["state"]) == ("FAILED", 1, "ended")
    assert "could not be opened" in shown["why"]["text"]


async def test_the_job_is_shown_also_while_nobody_explains_it(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada))["token"]
    world.acme.scaler.unexplained = "unavailable"

    assert json.loads(await opened(world, token))["why"] is None


async def test_the_token_of_a_link_is_no_members(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=["output"]))["token"]
    program = await world.browser()

    statuses = [await status_with(program, token, path) for path in ("/v1/users/me", LINKS, f"{LINKS[:-6]}")]

    assert statuses == [401, 401, 401]
    assert await status_with(program, token, SHARED, "HEAD") == 200
    assert await status_with(program, token, SHARED, "POST") == 405
