"""What is done about the deliveries of a webhook: tests, new secrets, replays, and the log.

The events service is a stand-in on a real NATS: `webhooks_stand_in.py`.
"""

import json
from datetime import datetime, timedelta
from typing import Any

import aiohttp
import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.rpc import webhooks as rpc
from clusterra_contracts.webhooks import Webhook
from clusterra_gateway.webhooks import receivers
from clusterra_runtime.store.webhook_records import WEBHOOKS, webhook_key, webhook_of
from gateway_world import World
from test_webhooks import KEY, REFUSED, URL, call, made, stand_in

FAILED = rpc.Attempt(delivered=False, status=500, answer_bytes=12, seconds=0.25)
DELIVERY = rpc.Delivery(
    message_id="msg_0af7651916cd43dd8448eb211c80319c",
    event_id="acme.main:42:1:job.failed",
    kind="job.failed",
    cluster="main",
    subject="42",
    time=now(),
    attempts=3,
    last=FAILED,
)


async def stored(world: World, webhook_id: str) -> Webhook:
    item = await world.store.get(WEBHOOKS, webhook_key("acme", webhook_id))
    assert item is not None
    webhook = webhook_of(item)
    assert webhook is not None
    return webhook


async def webhook_of_boss(world: World) -> tuple[aiohttp.ClientSession, dict[str, Any], str]:
    boss = await world.login("boss@acme.example")
    shown = await made(boss)
    return boss, shown, f"/{shown['id']}"


@pytest.mark.parametrize("outcome", [REFUSED, rpc.Attempt(delivered=True, status=200, answer_bytes=2, seconds=0.5)])
async def test_a_test_tells_what_came_of_it(world: World, outcome: rpc.Attempt) -> None:
    boss, shown, place = await webhook_of_boss(world)
    stand_in(world).outcome = outcome

    status, attempt = await call(boss, "POST", f"{place}/test")

    assert (status, attempt) == (200, outcome.model_dump())
    assert stand_in(world).tests[-1].webhook == await stored(world, shown["id"])


async def test_a_test_without_an_answer_of_the_service_is_told_so(world: World) -> None:
    boss, _, place = await webhook_of_boss(world)
    stand_in(world).away = True

    assert (await call(boss, "POST", f"{place}/test"))[0] == 503


async def test_a_workspace_sends_so_many_tests_a_minute(world: World) -> None:
    boss, _, place = await webhook_of_boss(world)
    # A busy machine may be so slow that some come back meanwhile.
    for _ in range(10 * receivers.TESTS_PER_MINUTE):
        async with boss.post(f"/v1/webhooks{place}/test") as answer:
            status, after = answer.status, answer.headers.get("Retry-After", "0")
        if status != 200:
            break

    assert (status, int(after) >= 1) == (429, True)
    assert len(stand_in(world).tests) >= receivers.TESTS_PER_MINUTE
    assert (await call(await world.login("chief@rival.example"), "POST", "", {"name": "CI", "url": URL}))[0] == 201


async def test_a_rotated_secret_stays_valid_for_the_overlap(world: World) -> None:
    boss, shown, place = await webhook_of_boss(world)

    status, rotated = await call(boss, "POST", f"{place}/secret", {"overlap_seconds": 3600})

    new, old = (await stored(world, shown["id"])).secrets
    assert status == 201
    assert (new.text, new.valid_until) == (rotated["secret"], None)
    assert old.text == shown["secret"] != new.text
    assert old.valid_until == datetime.fromisoformat(rotated["old_secret_until"])
    assert timedelta(minutes=55) < old.valid_until - now() <= timedelta(hours=1)
    read = (await call(boss, "GET", place))[1]
    assert read["old_secret_until"] == rotated["old_secret_until"]
    assert "whsec_" not in json.dumps(read)


async def test_two_secrets_are_valid_at_most(world: World) -> None:
    boss, shown, place = await webhook_of_boss(world)
    promised = (await call(boss, "POST", f"{place}/secret", {}))[1]

    refused, problem = await call(boss, "POST", f"{place}/secret", {})
    secrets = (await stored(world, shown["id"])).secrets
    status, rotated = await call(boss, "POST", f"{place}/secret", {"overlap_seconds": 0})

    assert (refused, [each.text for each in secrets]) == (409, [promised["secret"], shown["secret"]])
    assert "overlap_seconds 0" in problem["hint"]
    assert (status, rotated["old_secret_until"]) == (201, None)
    assert [each.text for each in (await stored(world, shown["id"])).secrets] == [rotated["secret"]]


async def test_a_rotation_that_is_sent_again_makes_no_further_secret(world: World) -> None:
    boss, shown, place = await webhook_of_boss(world)

    first = await call(boss, "POST", f"{place}/secret", {"overlap_seconds": 60}, headers=KEY)
    second = await call(boss, "POST", f"{place}/secret", {"overlap_seconds": 60}, headers=KEY)

    assert (first[0], second[0]) == (201, 409)
    assert [each.text for each in (await stored(world, shown["id"])).secrets] == [first[1]["secret"], shown["secret"]]


@pytest.mark.parametrize("seconds", [-1, 7 * 86_400 + 1, True, "1d"])
async def test_the_overlap_has_bounds(world: World, seconds: object) -> None:
    boss, _, place = await webhook_of_boss(world)

    assert (await call(boss, "POST", f"{place}/secret", {"overlap_seconds": seconds}))[0] == 400


async def test_a_replay_begins_again_at_a_time(world: World) -> None:
    boss, shown, place = await webhook_of_boss(world)
    before = (await stored(world, shown["id"])).deliver_from
    after = now() - timedelta(hours=71)

    status, changed = await call(boss, "POST", f"{place}/replay", {"after": after.isoformat()})

    begun = (await stored(world, shown["id"])).deliver_from
    assert (status, datetime.fromisoformat(changed["deliver_from"])) == (200, after)
    assert (begun.time, begun.id != before.id) == (after, True)


@pytest.mark.parametrize("hours", [73, -1])
async def test_a_replay_of_what_is_not_kept_is_refused(world: World, hours: int) -> None:
    boss, shown, place = await webhook_of_boss(world)
    before = await stored(world, shown["id"])

    after = (now() - timedelta(hours=hours)).isoformat()
    status, problem = await call(boss, "POST", f"{place}/replay", {"after": after})

    assert (status, "72 hours" in problem["hint"]) == (400, True)
    assert (await call(boss, "POST", f"{place}/replay", {"after": 1_700_000_000}))[0] == 400
    assert await stored(world, shown["id"]) == before


async def test_a_disabled_webhook_is_not_replayed(world: World) -> None:
    boss, _, place = await webhook_of_boss(world)
    await call(boss, "PATCH", place, {"enabled": False})

    status, problem = await call(boss, "POST", f"{place}/replay", {"after": now().isoformat()})

    assert (status, "enable it" in problem["hint"]) == (409, True)


async def test_the_log_has_the_deliveries_page_by_page(world: World) -> None:
    boss, shown, place = await webhook_of_boss(world)
    stand_in(world).page = rpc.DeliveryPage(
        state="retrying", failing_since=now(), next_attempt_at=now(), deliveries=(DELIVERY,), cursor="11"
    )

    query = {"failed_only": "true", "limit": "20", "cursor": "12"}
    status, page = await call(boss, "GET", f"{place}/deliveries", params=query)
    one = (await call(boss, "GET", place))[1]

    (delivery,) = page["deliveries"]
    assert (status, page["cursor"]) == (200, "11")
    assert delivery == DELIVERY.model_dump(mode="json", exclude={"cluster"}) | {"cluster_id": "main"}
    asked = {"webhook_id": shown["id"], "failed_only": True, "limit": 20, "cursor": "12"}
    assert asked in [each.model_dump() for each in stand_in(world).reads]
    assert (one["state"], bool(one["failing_since"]), bool(one["next_attempt_at"])) == ("retrying", True, True)


@pytest.mark.parametrize("query", [{"limit": "0"}, {"limit": "201"}, {"failed_only": "maybe"}, {"cursor": "1" * 201}])
async def test_a_wrong_query_of_the_log_is_refused(world: World, query: dict[str, str]) -> None:
    boss, _, place = await webhook_of_boss(world)

    assert (await call(boss, "GET", f"{place}/deliveries", params=query))[0] == 400


async def test_the_log_is_not_there_while_the_service_is_away(world: World) -> None:
    boss, _, place = await webhook_of_boss(world)
    stand_in(world).away = True

    assert (await call(boss, "GET", f"{place}/deliveries"))[0] == 503
