"""Deliveries to an incoming webhook of Slack."""

import pytest
from aiohttp import web
from clusterra_contracts.events import NodeFact, event_of
from clusterra_contracts.identity import now
from clusterra_events.webhooks.formats import FormatSender
from clusterra_events.webhooks.slack_sender import pause_of
from clusterra_lab.machine.process import until
from clusterra_lab.parts.nats import NatsServer

from .slack_stand_in import slack
from .webhook_world import GUARD_SECONDS, LOOPBACK, REF, webhook_at, world

EVENT = event_of("proxy", REF, NodeFact(kind="node.down", node="n1"), version="1", time=now())


async def test_events_are_messages_in_order_and_at_most_one_a_second(nats: NatsServer) -> None:
    async with slack() as channel, world(nats) as acme, acme.delivering() as webhooks:
        hook = webhook_at(channel.url, format="slack")
        await acme.put(hook)
        await acme.publish(range(3))
        await until(lambda: len(channel.messages) >= 3, seconds=GUARD_SECONDS, what="three messages")
        await acme.logged(webhooks, hook, 3)

    assert [each["text"] for each in channel.messages] == [f"Node n{each}: down" for each in range(3)]
    assert channel.problems == []
    gaps = [after - before for before, after in zip(channel.asked_at, channel.asked_at[1:], strict=False)]
    assert min(gaps) > 0.9


@pytest.mark.parametrize(
    ("status", "text", "problem"),
    [
        (404, "no_service", "the incoming webhook is gone or disabled (no_service)"),
        (403, "<b>of a stranger</b>", "Slack refused it"),
        (500, "rollup_error", "Slack failed (rollup_error)"),
    ],
)
async def test_a_refusal_is_told_in_words_of_ours(status: int, text: str, problem: str) -> None:
    async with slack() as channel, FormatSender(LOOPBACK) as sender:
        channel.answers.append(web.Response(status=status, text=text))
        attempt = await sender.send(webhook_at(channel.url, format="slack"), REF, EVENT)

    assert not attempt.delivered
    assert (attempt.status, attempt.problem) == (status, problem)


async def test_nothing_is_sent_in_the_pause_that_slack_asks_for() -> None:
    async with slack() as channel, FormatSender(LOOPBACK) as sender:
        hook = webhook_at(channel.url, format="slack")
        channel.answers.append(web.Response(status=429, headers={"Retry-After": "30"}))
        first, second = [await sender.send(hook, REF, EVENT) for _ in range(2)]

    assert (first.status, first.problem) == (429, "Slack asks to wait 30 s")
    assert second.status is None
    assert "Slack asked for a pause" in second.problem
    assert len(channel.asked_at) == 1


async def test_a_format_that_this_release_does_not_send_is_a_failed_attempt() -> None:
    async with FormatSender(LOOPBACK) as sender:
        attempt = await sender.send(webhook_at("https://x.example/", format="eventbridge"), REF, EVENT)

    assert not attempt.delivered
    assert attempt.problem == "this release does not send to eventbridge"


@pytest.mark.parametrize(
    ("header", "seconds"), [("30", 30), ("", 1), ("0", 1), ("-5", 1), ("soon", 1), ("9" * 50, 3600)]
)
def test_a_pause_has_bounds(header: str, seconds: int) -> None:
    assert pause_of(header) == seconds
