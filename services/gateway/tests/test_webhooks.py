"""Webhooks: who may make, read, change and delete them, what is refused, and that no secret is shown twice.

The events service is a stand-in on a real NATS: `webhooks_stand_in.py`.
"""

import asyncio
import base64
import json
import secrets
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.events import AdminFact, Event
from clusterra_contracts.rpc import webhooks as rpc
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_gateway.settings import Settings
from clusterra_gateway.webhooks import records
from clusterra_lab.machine.process import until
from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.webhook_records import DELETED, WEBHOOKS, webhook_key, webhook_of
from gateway_world import World, running
from issuer_stand_in import IssuerStandIn
from people_world import make_token, program
from sse_reader import sse_reader
from webhooks_stand_in import WebhooksStandIn

PATH = "/v1/webhooks"
URL = "https://ci.acme.example/hooks/9f86d081?key=s3cr3t"
REFUSED = rpc.Attempt(delivered=False, status=503, seconds=0.2)
KEY = {"Idempotency-Key": "one-webhook"}


def stand_in(world: World) -> WebhooksStandIn:
    return world.acme.events.webhooks


async def call(
    browser: aiohttp.ClientSession, method: str, path: str = "", content: object = None, **options: Any
) -> tuple[int, Any]:
    """The status and the JSON of a request below the path of webhooks."""
    async with browser.request(method, f"{PATH}{path}", json=content, **options) as answer:
        return answer.status, None if answer.status == 204 else await answer.json()


async def made(browser: aiohttp.ClientSession, **fields: Any) -> dict[str, Any]:
    status, answer = await call(browser, "POST", "", {"name": "CI", "url": URL} | fields)
    assert status == 201, answer
    webhook: dict[str, Any] = answer
    return webhook


async def test_a_webhook_is_made_after_a_test_and_shows_its_secret_once(world: World) -> None:
    boss = await world.login("boss@acme.example")

    shown = await made(boss, kinds=["job.failed", "run.*", "job.failed"], clusters=["main"], users=["ada"])
    listed, one = await call(boss, "GET"), await call(boss, "GET", f"/{shown['id']}")

    (sent,) = stand_in(world).tests
    secret = shown.pop("secret")
    assert len(base64.b64decode(secret.removeprefix("whsec_"), validate=True)) == 32
    assert [each.text for each in sent.webhook.secrets] == [secret]
    assert (shown["kinds"], shown["clusters"], shown["users"]) == (["job.failed", "run.*"], ["main"], ["ada"])
    assert (shown["url"], shown["enabled"], shown["state"], shown["created_by"]) == (URL, True, "working", "boss")
    assert listed == (200, {"webhooks": [shown], "total": 1})
    assert one == (200, shown)
    item = await world.store.get(WEBHOOKS, webhook_key("acme", shown["id"]))
    assert item is not None
    assert webhook_of(item) == sent.webhook


async def test_a_secret_of_the_caller_signs_the_test_and_is_kept_nowhere_else(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    boss = await world.login("boss@acme.example")
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(24)).decode()}"
    fields = {"name": "CI", "url": URL, "secret": secret}

    status, shown = await call(boss, "POST", "", fields, headers=KEY)
    again = await call(boss, "POST", "", fields, headers=KEY)
    other = await call(boss, "POST", "", fields | {"secret": secret.replace("whsec_", "whsec_AAAA")}, headers=KEY)

    (sent,) = stand_in(world).tests
    assert (status, shown["secret"]) == (201, secret)
    assert [each.text for each in sent.webhook.secrets] == [secret]
    assert (again[0], other[0]) == (409, 422)
    assert secret not in json.dumps([again, other, await call(boss, "GET")])
    item = await world.store.get(WEBHOOKS, webhook_key("acme", shown["id"]))
    assert item is not None
    assert webhook_of(item) == sent.webhook
    claims = await world.store.scan(IDEMPOTENCY, limit=100)
    assert claims.items
    assert secret not in repr(claims.items)
    assert secret not in "".join(capfd.readouterr())


async def test_new_webhooks_get_digests_of_arrays_and_those_of_before_each_task(world: World) -> None:
    boss = await world.login("boss@acme.example")

    new, chosen = await made(boss), await made(boss, arrays="tasks")
    _, changed = await call(boss, "PATCH", f"/{chosen['id']}", {"arrays": "digest"})
    _, back = await call(boss, "PATCH", f"/{chosen['id']}", {"arrays": "tasks", "name": "all"})

    assert [each["arrays"] for each in (new, chosen, changed, back)] == ["digest", "tasks", "digest", "tasks"]
    # A record of before has no such field.
    assert "arrays" not in stand_in(world).tests[-1].webhook.model_dump(mode="json")


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (REFUSED, "the receiver answered 503"),
        (rpc.Attempt(delivered=False, seconds=0.0, problem="the address is refused"), "the address is refused"),
    ],
)
async def test_a_receiver_that_does_not_take_the_test_gets_no_webhook(
    world: World, outcome: rpc.Attempt, told: str
) -> None:
    boss = await world.login("boss@acme.example")
    stand_in(world).outcome = outcome

    status, problem = await call(boss, "POST", "", {"name": "CI", "url": URL}, headers=KEY)

    assert (status, problem["type"]) == (422, "/v1/problems/not-delivered")
    assert told in problem["detail"]
    assert "s3cr3t" not in json.dumps(problem)
    assert (await call(boss, "GET"))[1]["total"] == 0
    stand_in(world).outcome = WebhooksStandIn().outcome
    assert (await call(boss, "POST", "", {"name": "CI", "url": URL}, headers=KEY))[0] == 201, "the key is free"


async def test_a_webhook_of_slack_shows_no_secret_and_keeps_its_format(world: World) -> None:
    boss = await world.login("boss@acme.example")

    shown = await made(boss, format="slack")
    status, _ = await call(boss, "PATCH", f"/{shown['id']}", {"format": "standard"})
    of_tomorrow, _ = await call(boss, "POST", "", {"name": "CI", "url": URL, "format": "eventbridge"})
    signed = {
        "name": "CI",
        "url": URL,
        "format": "slack",
        "secret": f"whsec_{base64.b64encode(bytes(range(32))).decode()}",
    }
    assert (await call(boss, "POST", "", signed))[0] == 400

    assert (shown["format"], shown["secret"]) == ("slack", "")
    assert stand_in(world).tests[0].webhook.format == "slack"
    assert (status, of_tomorrow) == (400, 400)
    assert (await call(boss, "GET", f"/{shown['id']}"))[1]["format"] == "slack"


async def test_a_refusal_of_slack_is_told_in_words(world: World) -> None:
    boss = await world.login("boss@acme.example")
    told = "the channel is archived (channel_is_archived)"
    stand_in(world).outcome = rpc.Attempt(delivered=False, status=410, seconds=0.1, problem=told)

    status, problem = await call(boss, "POST", "", {"name": "CI", "url": URL, "format": "slack"})

    assert status == 422
    assert told in problem["detail"]


async def test_without_an_events_service_nothing_is_made_and_the_key_is_free(world: World) -> None:
    boss = await world.login("boss@acme.example")
    stand_in(world).away = True

    status, _ = await call(boss, "POST", "", {"name": "CI", "url": URL}, headers=KEY)
    stand_in(world).away = False
    again, _ = await call(boss, "POST", "", {"name": "CI", "url": URL}, headers=KEY)

    assert (status, again) == (503, 201)


async def test_a_request_that_is_sent_again_makes_no_second_webhook(world: World) -> None:
    boss = await world.login("boss@acme.example")

    (first, shown), (second, problem) = [
        await call(boss, "POST", "", {"name": "CI", "url": URL}, headers=KEY) for _ in range(2)
    ]

    assert (first, second) == (201, 409)
    assert shown["id"] in problem["detail"]
    assert shown["secret"] not in json.dumps(problem)
    assert (await call(boss, "GET"))[1]["total"] == 1


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"url": "http://ci.acme.example/s3cr3t"}, "https"),
        ({"url": "https://bob:s3cr3t@ci.acme.example/"}, "no user"),
        ({"url": "https://ci.acme.example/#s3cr3t"}, "fragment"),
        ({"url": "https://ci.acme.example\\@evil.example/s3cr3t"}, "backslash"),
        ({"url": "https://ci.acme.example:22/s3cr3t"}, "port 22"),
        ({"url": "https://0x7f.1/s3cr3t"}, "IP address"),
        ({"url": "https://ci.acme.example:99999/s3cr3t"}, "port"),
        ({"url": "https:///s3cr3t"}, "host"),
        ({"url": "https://[::1/s3cr3t"}, "host"),
        ({"url": "https://ci.acme.example/s3cr3t\n"}, "url"),
        ({"url": "https://ci.acme.example/ s3cr3t"}, "url"),
        ({"url": "https://ci.acme.example/" + "s3cr3t" * 400}, "url"),
        ({"url": "ftp://ci.acme.example/s3cr3t"}, "url"),
        ({"kinds": ["job.exploded"]}, "job.exploded"),
        ({"kinds": ["jobs.*"]}, "families: "),
        ({"kinds": ["*"]}, "kinds"),
        ({"clusters": ["main", "secret"]}, "no cluster secret"),
        ({"users": ["Ada"]}, "users"),
        ({"name": ""}, "name"),
        ({"name": "a\x1b[2J"}, "name"),
        ({"secret": "whsec_mine"}, "secret"),
        ({"secret": "whsec_s3cr3t+" + "A" * 27}, "secret"),
        ({"secret": "whsec_" + "A" * 32}, "can be guessed"),
        ({"secret": "whsec_" + "A" * 33}, "base64"),
        ({"secret": "whsec_" + base64.b64encode(bytes(range(66))).decode()}, "24 to 64 bytes"),
        ({"arrays": "all"}, "arrays"),
        ({"kinds": ["job.digest"]}, "arrays: digest"),
    ],
)
async def test_what_cannot_be_is_refused_with_a_hint(world: World, fields: dict[str, Any], told: str) -> None:
    boss = await world.login("boss@acme.example")

    status, problem = await call(boss, "POST", "", {"name": "CI", "url": URL} | fields)

    assert status == 400
    assert told in f"{problem['detail']} {problem.get('hint')}"
    assert problem["errors"][0]["pointer"].startswith(f"#/{next(iter(fields))}")
    assert "s3cr3t" not in json.dumps(problem)
    assert stand_in(world).tests == []


async def test_plain_http_needs_a_network_that_the_installation_allows(
    settings: Settings, issuer: IssuerStandIn
) -> None:
    allowing = Settings.model_validate(settings.model_dump() | {"webhook_networks": ["127.0.0.0/8"]})
    async with running(allowing, issuer) as world:
        boss = await world.login("boss@acme.example")

        shown = await made(boss, url="http://127.0.0.1:8000/in")

    assert shown["url"] == "http://127.0.0.1:8000/in"


async def test_a_workspace_has_so_many_webhooks_at_most(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_WEBHOOKS", 3)
    boss = await world.login("boss@acme.example")
    for _ in range(2):
        await made(boss)

    at_once = await asyncio.gather(*(call(boss, "POST", "", {"name": "CI", "url": URL}) for _ in range(3)))
    tests = len(stand_in(world).tests)
    refused = await call(boss, "POST", "", {"name": "CI", "url": URL})

    assert sorted(status for status, _ in at_once) == [201, 409, 409]
    assert (refused[0], len(stand_in(world).tests)) == (409, tests), "nobody is sent a test for nothing"
    assert (await call(boss, "GET"))[1]["total"] == 3


async def test_a_workspace_does_not_make_and_delete_webhooks_again_and_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is left of each deleted one is read by everybody who reads the webhooks, for days."""
    monkeypatch.setattr(records, "MAX_DELETED", 3)
    boss = await world.login("boss@acme.example")
    for _ in range(3):
        await call(boss, "DELETE", f"/{(await made(boss))['id']}")
    tests = len(stand_in(world).tests)

    status, answer = await call(boss, "POST", "", {"name": "CI", "url": URL})

    assert (status, len(stand_in(world).tests)) == (409, tests)
    assert "has deleted 3 webhooks" in answer["detail"]


async def test_webhooks_are_for_admins_and_tokens_with_the_scope(world: World) -> None:
    boss, ada = await world.login("boss@acme.example"), await world.login("ada@acme.example")
    shown = await made(boss)
    reader = await program(boss, scopes=["webhooks:read"])
    writer = await program(boss, scopes=["webhooks:write"])
    other = await program(boss, scopes=["members:write"])
    machine = await world.browser()
    wanted = {"name": "CI", "url": URL}

    assert [(await call(ada, each))[0] for each in ("GET", "POST")] == [403, 403]
    assert (await call(ada, "GET", f"/{shown['id']}"))[0] == 403
    assert (await call(machine, "GET", headers=reader))[0] == 200
    assert (await call(machine, "POST", "", wanted, headers=reader))[0] == 403
    assert (await call(machine, "POST", "", wanted, headers=writer))[0] == 201
    assert [(await call(machine, each, "", wanted, headers=other))[0] for each in ("GET", "POST")] == [403, 403]


async def test_an_admin_of_another_workspace_finds_nothing(world: World) -> None:
    boss, chief = await world.login("boss@acme.example"), await world.login("chief@rival.example")
    shown = await made(boss)

    assert (await call(chief, "GET"))[1]["webhooks"] == []
    for method, path, content in (
        ("GET", "", None),
        ("PATCH", "", {"name": "mine"}),
        ("DELETE", "", None),
        ("POST", "/test", None),
        ("POST", "/secret", {}),
        ("GET", "/deliveries", None),
    ):
        assert (await call(chief, method, f"/{shown['id']}{path}", content))[0] == 404, (method, path)
    assert (await call(boss, "GET", f"/{shown['id']}"))[1]["name"] == "CI"
    assert len(stand_in(world).tests) == 1
    assert world.rival.events.webhooks.tests == []


async def test_a_change_changes_only_what_it_names(world: World) -> None:
    boss = await world.login("boss@acme.example")
    shown = await made(boss, kinds=["job.*"], clusters=["main"])
    del shown["secret"]

    status, changed = await call(boss, "PATCH", f"/{shown['id']}", {"name": "Builds", "kinds": [], "users": None})

    assert (status, changed) == (200, shown | {"name": "Builds", "kinds": []})
    assert len(stand_in(world).tests) == 1, "the address is the same"


async def test_another_address_must_take_a_test(world: World) -> None:
    boss = await world.login("boss@acme.example")
    shown = await made(boss)
    other = "https://other.acme.example/in"

    stand_in(world).outcome = REFUSED
    refused, _ = await call(boss, "PATCH", f"/{shown['id']}", {"url": other, "name": "Builds"})
    kept = (await call(boss, "GET", f"/{shown['id']}"))[1]
    stand_in(world).outcome = WebhooksStandIn().outcome
    status, changed = await call(boss, "PATCH", f"/{shown['id']}", {"url": other})

    assert (refused, kept["url"], kept["name"]) == (422, URL, "CI")
    assert (status, changed["url"]) == (200, other)
    assert [each.webhook.url for each in stand_in(world).tests] == [URL, other, other]
    assert {each.webhook.secrets[0].text for each in stand_in(world).tests} == {shown["secret"]}


@pytest.mark.parametrize("fields", [{"url": "http://a.example"}, {"kinds": ["job.exploded"]}, {"clusters": ["secret"]}])
async def test_a_change_to_what_cannot_be_is_refused(world: World, fields: dict[str, Any]) -> None:
    boss = await world.login("boss@acme.example")
    shown = await made(boss)

    assert (await call(boss, "PATCH", f"/{shown['id']}", fields))[0] == 400


async def test_a_webhook_that_is_enabled_begins_with_what_is_new(world: World) -> None:
    boss = await world.login("boss@acme.example")
    shown = await made(boss)
    place = f"/{shown['id']}"

    disabled = (await call(boss, "PATCH", place, {"enabled": False}))[1]
    enabled = (await call(boss, "PATCH", place, {"enabled": True}))[1]
    same = (await call(boss, "PATCH", place, {"enabled": True}))[1]

    assert (disabled["enabled"], disabled["state"], disabled["deliver_from"]) == (
        False,
        "disabled",
        shown["deliver_from"],
    )
    assert (enabled["enabled"], enabled["state"]) == (True, "working")
    assert enabled["deliver_from"] > shown["deliver_from"]
    assert same == enabled, "it was enabled already"


async def test_a_webhook_that_failed_for_days_is_enabled_again(world: World) -> None:
    boss = await world.login("boss@acme.example")
    shown = await made(boss)
    place = f"/{shown['id']}"
    stand_in(world).page = rpc.DeliveryPage(state="disabled", disabled_reason="410 Gone", deliveries=())

    before = (await call(boss, "GET", place))[1]
    renamed = (await call(boss, "PATCH", place, {"name": "Builds"}))[1]
    enabled = (await call(boss, "PATCH", place, {"enabled": True}))[1]
    stand_in(world).away = True
    unknown = (await call(boss, "PATCH", place, {"enabled": True}))[0]

    assert (before["enabled"], before["state"], before["disabled_reason"]) == (True, "disabled", "410 Gone")
    assert renamed["deliver_from"] == shown["deliver_from"]
    assert enabled["deliver_from"] > shown["deliver_from"]
    assert unknown == 503


async def test_webhooks_are_shown_without_their_state_while_nobody_knows_it(world: World) -> None:
    boss = await world.login("boss@acme.example")
    shown = await made(boss)
    stand_in(world).away = True

    listed, one = await call(boss, "GET"), await call(boss, "GET", f"/{shown['id']}")

    assert (listed[0], listed[1]["webhooks"][0]["state"]) == (200, None)
    assert (one[0], one[1]["state"]) == (200, None)


async def test_nothing_of_a_deleted_webhook_is_kept_but_its_mark(world: World) -> None:
    boss = await world.login("boss@acme.example")
    shown = await made(boss)
    place = f"/{shown['id']}"

    statuses = [(await call(boss, method, place))[0] for method in ("DELETE", "GET", "DELETE")]

    item = await world.store.get(WEBHOOKS, webhook_key("acme", shown["id"]))
    assert statuses == [204, 404, 404]
    assert (await call(boss, "GET"))[1]["total"] == 0
    assert item is not None
    assert item.expires_at is not None
    assert item.attributes[DELETED] is True
    assert shown["secret"] not in str(item)
    assert "s3cr3t" not in str(item)


async def test_every_change_is_told_without_the_address(world: World) -> None:
    boss = await world.login("boss@acme.example")

    async with sse_reader(boss, "/v1/clusters/main/events/stream") as reader:
        shown = await made(boss)
        place = f"/{shown['id']}"
        await call(boss, "PATCH", place, {"name": "Builds"})
        await call(boss, "PATCH", place, {"name": "Builds"})
        await call(boss, "POST", f"{place}/secret", {})
        await call(boss, "POST", f"{place}/replay", {"after": shown["created_at"]})
        await call(boss, "DELETE", place)
        await until(lambda: any("webhook.deleted" in each.data for each in reader.events), seconds=90, what="its end")

    told = [Event.model_validate_json(event.data).data for event in reader.events]
    facts = [fact for fact in told if isinstance(fact, AdminFact) and fact.subject == shown["id"]]
    assert [(fact.kind, fact.actor, fact.detail) for fact in facts] == [
        ("webhook.created", "boss", "CI"),
        ("webhook.changed", "boss", "Builds"),
        ("webhook.secret_rotated", "boss", "Builds"),
        ("webhook.replayed", "boss", "Builds"),
        ("webhook.deleted", "boss", "Builds"),
    ]
    assert "s3cr3t" not in "".join(event.data for event in reader.events)

    async def sent() -> bool:
        item = await world.store.get(WEBHOOKS, webhook_key("acme", shown["id"]))
        return item is not None and OUTBOX.partition not in item.attributes

    await until(sent, seconds=90, what="an outbox without messages")


async def test_a_token_for_webhooks_can_be_asked_for(world: World) -> None:
    made_token = await make_token(await world.login("boss@acme.example"), scopes=["webhooks:read", "webhooks:write"])

    assert made_token["scopes"] == ["webhooks:read", "webhooks:write"]
