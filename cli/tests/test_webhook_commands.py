"""`clusterra webhooks` as processes, with a real gateway, and stand-ins for whoever delivers."""

import base64
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from clusterra_contracts.identity import now
from clusterra_contracts.rpc import webhooks as rpc
from command_line import CommandLine
from gateway_world import World
from people_world import make_token
from webhooks_stand_in import DELIVERED, WORKING, WebhooksStandIn

ADDRESS = "https://ci.acme.example/hooks/7f3a"


@pytest.fixture
def events(world: World) -> WebhooksStandIn:
    stand_in = world.acme.events.webhooks
    stand_in.outcome, stand_in.page = DELIVERED, WORKING
    stand_in.tests.clear()
    stand_in.reads.clear()
    return stand_in


@pytest.fixture
async def boss(world: World, command: CommandLine) -> AsyncIterator[CommandLine]:
    """The command of an admin whose workspace has no webhook."""
    browser = await world.login("boss@acme.example")
    token = await make_token(browser)
    yield command.having(CLUSTERRA_TOKEN=token["token"])
    async with browser.get("/v1/webhooks") as answer:
        left = (await answer.json())["webhooks"]
    for each in left:
        async with browser.delete(f"/v1/webhooks/{each['id']}") as answer:
            assert answer.status == 204


async def test_a_webhook_from_its_creation_to_its_end(boss: CommandLine, events: WebhooksStandIn) -> None:
    filters = ("--kind=job.failed", "--kind=run.*", "--cluster=main", "--user=ada")
    created = await boss("webhooks", "create", ADDRESS, "--name=CI", *filters)
    listed, ids = await boss("webhooks"), await boss("webhooks", "list", "--quiet")
    webhook = ids.out.strip()
    deleted = await boss("webhooks", "delete", webhook)

    assert (created.code, created.out.startswith("whsec_"), len(created.out.split())) == (0, True, 1), created
    assert f"webhook {webhook} is created" in created.err
    (test,) = events.tests
    assert (test.webhook.kinds, test.webhook.clusters, test.webhook.users) == (
        ("job.failed", "run.*"),
        ("main",),
        ("ada",),
    )
    assert listed.code == 0
    assert all(text in listed.out for text in (webhook, "CI", "working", "job.failed run.*", ADDRESS)), listed
    assert created.out.strip() not in listed.out
    assert deleted.out == f"webhook {webhook} is deleted\n"
    assert (await boss("webhooks", "list", "--quiet")).out == ""


async def test_a_secret_of_a_file_signs_the_test(boss: CommandLine, events: WebhooksStandIn, tmp_path: Path) -> None:
    secret = f"whsec_{base64.b64encode(bytes(range(24))).decode()}"
    file, empty = tmp_path / "secret", tmp_path / "empty"
    file.write_text(f"{secret}\n")
    empty.write_text("s3cr3t\n")

    created = await boss("webhooks", "create", ADDRESS, "--name=CI", "--arrays=tasks", f"--secret-file={file}")
    refused = await boss("webhooks", "create", ADDRESS, "--name=CI", f"--secret-file={empty}")

    (test,) = events.tests
    assert (created.code, created.out.strip(), test.webhook.arrays) == (0, secret, "tasks"), created
    assert [each.text for each in test.webhook.secrets] == [secret]
    assert (refused.code, refused.out) == (2, "")
    assert "has no secret" in refused.err
    assert "s3cr3t" not in refused.err


async def test_a_receiver_that_refuses_is_told(boss: CommandLine, events: WebhooksStandIn) -> None:
    webhook = (await boss("webhooks", "create", ADDRESS, "--name=CI", "--quiet")).out.strip()
    events.outcome = rpc.Attempt(delivered=False, status=503, seconds=0.1)

    created = await boss("webhooks", "create", ADDRESS, "--name=other")
    tested = await boss("webhooks", "test", webhook)
    events.outcome = DELIVERED
    passed = await boss("webhooks", "test", webhook, "--json")

    assert (created.code, created.out) == (6, "")
    assert "the receiver answered 503" in created.err
    assert (tested.code, tested.out) == (1, "failed, 503\n")
    assert passed.json["delivered"] is True


async def test_why_slack_refused_is_told(boss: CommandLine, events: WebhooksStandIn) -> None:
    webhook = (await boss("webhooks", "create", ADDRESS, "--name=CI", "--quiet")).out.strip()
    events.outcome = rpc.Attempt(delivered=False, status=410, seconds=0.1, problem="the channel is archived")

    tested = await boss("webhooks", "test", webhook)

    assert (tested.code, tested.out) == (1, "failed, 410: the channel is archived\n")


async def test_a_secret_is_rotated(boss: CommandLine, events: WebhooksStandIn) -> None:
    webhook = (await boss("webhooks", "create", ADDRESS, "--name=CI", "--quiet")).out.strip()

    rotated = await boss("webhooks", "rotate", webhook, "--overlap-hours=1", "--json")
    again = await boss("webhooks", "rotate", webhook)
    at_once = await boss("webhooks", "rotate", webhook, "--overlap-hours=0")

    assert timedelta(minutes=50) < datetime.fromisoformat(rotated.json["old_secret_until"]) - now()
    assert (again.code, again.out) == (6, "")
    assert at_once.out.startswith("whsec_")
    assert "ends at once" in at_once.err


async def test_events_are_delivered_again(boss: CommandLine, events: WebhooksStandIn) -> None:
    webhook = (await boss("webhooks", "create", ADDRESS, "--name=CI", "--quiet")).out.strip()

    replayed = await boss("webhooks", "replay", webhook, "--hours=72", "--json")
    since = await boss("webhooks", "replay", webhook, f"--after={now().isoformat()}")
    wrong = await boss("webhooks", "replay", webhook)

    assert timedelta(hours=71) < now() - datetime.fromisoformat(replayed.json["deliver_from"]) < timedelta(hours=73)
    assert (since.code, since.out.startswith(f"webhook {webhook} gets the events since")) == (0, True), since
    assert wrong.code == 2


async def test_the_log_of_deliveries(boss: CommandLine, events: WebhooksStandIn) -> None:
    webhook = (await boss("webhooks", "create", ADDRESS, "--name=CI", "--quiet")).out.strip()
    delivery = rpc.Delivery(
        message_id="msg_0af7651916cd43dd8448eb211c80319c",
        event_id="e1",
        kind="job.failed",
        cluster="main",
        subject="42",
        time=now(),
        attempts=3,
        given_up=True,
        last=rpc.Attempt(delivered=False, seconds=10.0, problem="no answer within 10 s"),
    )
    events.page = rpc.DeliveryPage(state="retrying", deliveries=(delivery,))

    shown = await boss("webhooks", "deliveries", webhook, "--failed")
    as_json = await boss("webhooks", "deliveries", webhook, "--json")

    assert shown.code == 0, shown
    assert all(text in shown.out for text in ("job.failed", "42", "no answer within 10 s, given up", "msg_0af7"))
    assert events.reads[-2].failed_only is True
    assert as_json.json[0]["message_id"] == delivery.message_id


async def test_who_is_no_admin_is_refused(ada: CommandLine, events: WebhooksStandIn) -> None:
    assert (await ada("webhooks", "list")).code == 6
    assert (await ada("webhooks", "delete", "wh_0123456789abcdef")).code == 6
