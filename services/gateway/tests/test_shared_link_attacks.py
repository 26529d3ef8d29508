"""What nobody gets by a shared link: other jobs, other tenants, names, paths, or anything after it was taken away."""

import json
from datetime import timedelta
from typing import Any

import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.why import JobPlace
from clusterra_gateway.accounts.keyspace import ACCOUNTS, member_key, shared_link_key
from clusterra_gateway.http.requests.errors import Unauthenticated
from clusterra_gateway.identity.access import limits
from clusterra_gateway.jobs.explanations import JobExplanation
from clusterra_gateway.settings import Settings
from clusterra_gateway.shared_links import opened_link
from clusterra_gateway.shared_links.link_tokens import join_link, page_path, split_link
from clusterra_gateway.shared_links.shown_job import ShownExplanation
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.registry import delete_binding
from clusterra_runtime.store.store import Update
from gateway_world import World, running
from hypothesis import given
from hypothesis import strategies as st
from issuer_stand_in import IssuerStandIn
from people_world import bearer, change, cookie_of, make_token, me, replica
from shared_link_world import (
    LINKS,
    OUTPUT,
    PATH,
    SCRIPT,
    SHARED,
    changed_job,
    made_link,
    names,
    opened,
    owner_of_a_job,
)

ALL = ["output", "cost", "why", "script"]


@given(st.from_regex(r"[0-9a-f]{16}", fullmatch=True), st.from_regex(r"[A-Za-z0-9_-]{43}", fullmatch=True))
def test_a_token_has_the_id_and_the_secret(link_id: str, secret: str) -> None:
    token = join_link(link_id, secret)

    assert split_link(token) == (link_id, secret)
    assert page_path(token) == f"/shared#{token}"


@given(st.text() | st.from_regex(r"clk_[0-9a-f]{15,17}_[A-Za-z0-9_-]{42,44}\n?", fullmatch=True))
def test_what_is_no_token_is_refused_before_the_store_is_asked(text: str) -> None:
    try:
        link_id, secret = split_link(text)
    except Unauthenticated:
        return
    assert join_link(link_id, secret) == text
    assert (len(link_id), len(secret)) == (16, 43)


@given(st.lists(st.from_regex(r"[a-z][a-z0-9-]{0,12}[a-z0-9]", fullmatch=True), min_size=1, max_size=4))
def test_an_explanation_names_no_node(names: list[str]) -> None:
    places = tuple(JobPlace(kind="node", worker=f"{name}-7", shape="compute-xs") for name in names)
    text = " ".join(f"It runs on {place.worker}, or {place.worker}." for place in places)
    told = JobExplanation(job_id="7", state="running", text=text, places=places, as_of=now())

    shown = ShownExplanation.of(told)

    assert shown.text == " ".join(["It runs on a node, or a node."] * len(names))
    assert all(place.worker not in shown.model_dump_json() for place in places if place.worker)


async def test_only_the_right_secret_opens_a_link(world: World) -> None:
    ada = await owner_of_a_job(world)
    made, other = await made_link(ada, shows=ALL), await made_link(ada, shows=ALL)
    right, secret = made["token"], made["token"].split("_", 2)[2]
    spoilt = secret[:-1] + ("A" if secret[-1] != "A" else "B")

    for wrong in (join_link(other["id"], secret), join_link(made["id"], spoilt), join_link("0" * 16, secret)):
        told = json.loads(await opened(world, wrong, status=404))
        assert told["detail"] == "this link is wrong, has expired or was revoked"
        await opened(world, wrong, OUTPUT, status=404)
        await opened(world, wrong, SCRIPT, status=404)
    for malformed in (right + "x", right[:-1], right.upper(), "clk_", made["id"], f"clusterra_{right}"):
        await opened(world, malformed, status=401)
    await opened(world, right)


async def test_a_link_is_taken_from_the_header_alone_and_nothing_else_opens_a_shared_job(world: World) -> None:
    ada = await owner_of_a_job(world)
    token, api_token = (await made_link(ada))["token"], (await make_token(ada))["token"]
    stranger = await world.browser()

    async with ada.get(SHARED) as answer:
        assert answer.status == 401, "a session shows nothing here"
    for headers in (bearer(api_token), {"Cookie": f"clusterra_session={token}"}, {"Authorization": token}):
        async with stranger.get(SHARED, headers=headers) as answer:
            assert answer.status == 401, headers
    for path in (f"{SHARED}?token={token}", f"{SHARED}?access_token={token}", f"{OUTPUT}?token={token}"):
        async with stranger.get(path) as answer:
            assert answer.status == 401
            assert token not in await answer.text()
        async with stranger.get(path, headers=bearer(token)) as answer:
            assert answer.status == 400, "a token in an address stands in logs"
            assert token not in await answer.text()
    assert cookie_of(ada) not in await opened(world, token)


async def test_a_link_shows_the_one_job_and_no_parameter_chooses_another(world: World) -> None:
    ada = await owner_of_a_job(world)
    await owner_of_a_job(world, job_id="8")
    token = (await made_link(ada, shows=ALL))["token"]

    for path in (f"{SHARED}?job_id=8", f"{SHARED}?cluster_id=secret", f"{OUTPUT}?job_id=8"):
        await opened(world, token, path, status=400)
    for path in (f"{SHARED}/8", f"{OUTPUT}/8", f"{SHARED}/../clusters/main/jobs/8"):
        assert '"job_id":"8"' not in await opened(world, token, path, status=404 if ".." not in path else 401)


async def test_no_name_no_path_and_no_other_person_is_shown(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=ALL, name="private note"))["token"]
    for state, ended in (("RUNNING", None), ("CANCELLED", now()), ("FAILED", now())):
        changed_job(
            world,
            state=state,
            ended_at=ended,
            standard_output=PATH,
            standard_error=PATH,
            cancelled_by="boss",
            nodes=("node-17",),
            account="secret-account",
            constraints="secret-feature",
            reason="FilesNotOpened" if state == "FAILED" else "",
        )
        text = await opened(world, token) + await opened(world, token, OUTPUT, status=404)
        for hidden in ("secret", "boss", "node-17", "private note", "example", "ada", "20001"):
            assert not names(text, hidden), (state, hidden)


SLURMS_TEXT = "ReqNodeNotAvail, UnavailableNodes:compute-xs-[3-7],secret-host"


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        (SLURMS_TEXT, "ReqNodeNotAvail"),
        ("RaisedSignal:53(secret)", "RaisedSignal"),
        ("burst_buffer/lua: secret-host", "burst_buffer/lua"),
        ("launch failed on secret-host", "launch"),
        ("Dependency", "Dependency"),
        ("secret-host.example does not respond", "Other"),
        ("", ""),
    ],
)
def test_of_a_reason_its_word_is_shown(reason: str, word: str) -> None:
    places = (JobPlace(kind="node", worker="secret-host"),)
    text = f"Its partition main does not allow it to start ({reason})."

    shown = ShownExplanation.of(
        JobExplanation(job_id="7", state="pending", reason=reason, text=text, places=places, as_of=now())
    )

    assert (shown.reason, shown.text) == (word, f"Its partition main does not allow it to start ({word}).")


@pytest.mark.parametrize("name", ["secret", "secret.2,dr. secret", "secret\nsecret", "secret. No"])
@pytest.mark.parametrize("rest", [" No worker is bought for it.", ""])
def test_no_reservation_is_named(name: str, rest: str) -> None:
    text = f"2 of its tasks are running. It waits for its reservation {name}.{rest}"

    shown = ShownExplanation.of(
        JobExplanation(job_id="7", state="pending", reason="Reservation", text=text, as_of=now())
    )

    assert shown.text == f"2 of its tasks are running. It waits for its reservation.{rest}"


async def test_no_text_of_slurms_own_is_shown(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=ALL))["token"]
    world.acme.scaler.told = {"reason": SLURMS_TEXT, "cause": None, "text": f"Slurm keeps it waiting ({SLURMS_TEXT})."}
    waiting = await opened(world, token)
    changed_job(world, state="FAILED", reason=SLURMS_TEXT, ended_at=now())
    ended = await opened(world, token)

    for text in (waiting, ended):
        assert json.loads(text)["why"]["reason"] == "ReqNodeNotAvail"
        assert "ReqNodeNotAvail" in json.loads(text)["why"]["text"]
        for hidden in ("secret", "compute-xs-", "UnavailableNodes"):
            assert hidden not in text


@pytest.mark.parametrize("taken", ["disabled", "another uid", "job is gone", "another job", "re-created", "expired"])
async def test_a_link_dies_with_what_its_owner_may_see(world: World, taken: str) -> None:
    ada, boss = await owner_of_a_job(world), await world.login("boss@acme.example")
    made, member = await made_link(ada, shows=ALL), (await me(ada))["id"]
    await opened(world, made["token"])

    if taken == "disabled":
        assert await change(boss, member, disabled=True) == 200
    elif taken == "another uid":
        changed_job(world, uid=29999)
    elif taken == "job is gone":
        del world.acme.jobs["7"]
    elif taken == "another job":
        changed_job(world, submitted_at=now() + timedelta(seconds=5))
    elif taken == "re-created":
        later = (now() + timedelta(seconds=1)).isoformat()
        await world.store.write(Update(ACCOUNTS, member_key(member), set={"joined_at": later}))
    else:
        key = shared_link_key(world.acme.ref, "7", made["id"])
        await world.store.write(Update(ACCOUNTS, key, set={"valid_until": now().isoformat()}))

    await opened(world, made["token"], status=404)
    await opened(world, made["token"], OUTPUT, status=404)
    await opened(world, made["token"], SCRIPT, status=404)


async def test_a_link_follows_its_job_when_slurm_requeues_it(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada))["token"]

    changed_job(world, submitted_at=now() + timedelta(seconds=5), restarts=1)

    await opened(world, token)


async def test_a_link_dies_with_its_cluster(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada))["token"]
    stranger = await world.browser()
    await delete_binding(world.client, world.acme.ref)

    async def gone() -> bool:
        async with stranger.get(SHARED, headers=bearer(token)) as answer:
            return answer.status == 404

    await until(gone, seconds=90, what="a link without a cluster", every=0.05)


async def test_an_owner_who_becomes_an_admin_shows_no_more_by_it(world: World) -> None:
    ada, boss = await owner_of_a_job(world), await world.login("boss@acme.example")
    token = (await made_link(ada, shows=ALL))["token"]
    assert await change(boss, (await me(ada))["id"], role="admin") == 200
    await opened(world, token)

    changed_job(world, uid=29999, user="carol")

    await opened(world, token, status=404)


async def test_a_revoked_link_shows_nothing_on_any_replica(world: World) -> None:
    ada = await owner_of_a_job(world)
    made = await made_link(ada, shows=ALL)
    async with replica(world) as url:
        stranger = await world.browser()

        async def status() -> int:
            async with stranger.get(f"{url}{SHARED}", headers=bearer(made["token"])) as answer:
                return answer.status

        before = await status()
        assert (await ada.delete(f"{LINKS}/{made['id']}")).status == 204
        after = await status()

    assert (before, after) == (200, 404)


async def test_a_path_outside_of_the_shared_folder_is_not_told(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=ALL))["token"]
    changed_job(world, standard_output=PATH)

    assert PATH not in await opened(world, token, OUTPUT, status=404)
    async with ada.get("/v1/clusters/main/jobs/7/output") as answer:
        assert PATH in await answer.text(), "its owner is told"


async def test_what_a_service_answers_to_a_link_is_not_passed_on(world: World) -> None:
    ada = await owner_of_a_job(world)
    token = (await made_link(ada, shows=ALL))["token"]
    world.acme.unreadable_jobs.add("7")

    told = json.loads(await opened(world, token, status=503))

    assert "cannot be read" not in json.dumps(told)


async def test_requests_with_a_link_are_limited_for_the_link(
    settings: Settings, issuer: IssuerStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_link, "PER_MINUTE", 3)
    async with running(settings, issuer) as world:
        ada = await owner_of_a_job(world)
        one, other = (await made_link(ada))["token"], (await made_link(ada))["token"]
        for _ in range(3):
            await opened(world, one)

        refused: dict[str, Any] = json.loads(await opened(world, one, status=429))

        assert refused["type"] == "/v1/problems/too-many-requests"
        await opened(world, other)
        assert (await me(ada))["name"] == "ada"


async def test_requests_with_all_links_of_a_member_are_limited(
    settings: Settings, issuer: IssuerStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opened_link, "PER_MINUTE", 3)
    monkeypatch.setattr(opened_link, "MEMBER_PER_MINUTE", 5)
    async with running(settings, issuer) as world:
        ada = await owner_of_a_job(world)
        one, other = (await made_link(ada))["token"], (await made_link(ada))["token"]
        for token, status in ((one, 200), (one, 200), (one, 200), (one, 429), (one, 429), (other, 200), (other, 200)):
            await opened(world, token, status=status)

        refused: dict[str, Any] = json.loads(await opened(world, other, status=429))

        assert refused["type"] == "/v1/problems/too-many-requests"
        assert not names(json.dumps(refused), "ada")
        bob = await owner_of_a_job(world, "bob@acme.example", "8")
        await opened(world, (await made_link(bob, LINKS.replace("/7/", "/8/")))["token"])


async def test_wrong_links_are_counted_as_wrong_tokens(
    settings: Settings, issuer: IssuerStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WRONG_PER_MINUTE", 3)
    async with running(settings, issuer) as world:
        ada = await owner_of_a_job(world)
        token, fresh = (await made_link(ada))["token"], (await made_link(ada))["token"]
        await opened(world, token)
        for number in range(3):
            await opened(world, join_link(f"{number:016x}", "x" * 43), status=404)

        await opened(world, join_link("f" * 16, "x" * 43), status=429)
        await opened(world, fresh, status=429)
        await opened(world, token)
