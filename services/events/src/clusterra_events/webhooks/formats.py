"""Sends each event in the form that its webhook asks for."""

from collections.abc import Sequence
from typing import Self

from aiohttp.abc import AbstractResolver
from clusterra_contracts.events import Event
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.rpc.webhooks import ATTEMPT_SECONDS, Attempt
from clusterra_contracts.webhooks import Webhook
from clusterra_runtime.outbound import Network

from clusterra_events.webhooks.posting.poster import Poster
from clusterra_events.webhooks.sender import Sender
from clusterra_events.webhooks.slack_sender import SlackSender
from clusterra_events.webhooks.standard_sender import StandardSender


class FormatSender:
    """Sends events by the format of the webhook. One for all webhooks of a process; use it as a context."""

    def __init__(
        self,
        allowed: Sequence[Network] = (),
        *,
        resolver: AbstractResolver | None = None,
        seconds: float = ATTEMPT_SECONDS,
    ) -> None:
        """`allowed`: networks that are not public and may be called all the same, also by plain HTTP."""
        self._poster = Poster(allowed, resolver=resolver, seconds=seconds)
        self._senders: dict[str, Sender] = {
            "standard": StandardSender(self._poster),
            "slack": SlackSender(self._poster),
        }

    async def __aenter__(self) -> Self:
        await self._poster.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._poster.__aexit__(*error)

    async def send(self, webhook: Webhook, ref: ClusterRef, event: Event) -> Attempt:
        """Send an event of a cluster once. Whatever goes wrong is in the attempt."""
        sender = self._senders.get(webhook.format)
        if sender is None:
            return Attempt(delivered=False, seconds=0, problem=f"this release does not send to {webhook.format}")
        return await sender.send(webhook, ref, event)
