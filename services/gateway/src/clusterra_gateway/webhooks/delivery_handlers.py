"""The routes of a webhook's deliveries, for admins: a test, a new secret, a replay, the delivery log."""

from datetime import timedelta
from functools import partial

from aiohttp import web
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.webhooks import ReadDeliveries
from clusterra_contracts.webhooks import Webhook

from clusterra_gateway.accounts.records import Member
from clusterra_gateway.http.answers.responses import json_response
from clusterra_gateway.http.requests.errors import Conflict, InvalidRequest
from clusterra_gateway.http.requests.parameters import body, path_id, query
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.webhooks.handlers import WEBHOOK, WEBHOOK_ID, deliver_from
from clusterra_gateway.webhooks.models import (
    CLOCK_SKEW,
    MAX_REPLAY_HOURS,
    AttemptView,
    Deliveries,
    DeliveriesQuery,
    Replay,
    RotatedSecret,
    RotateSecret,
    WebhookView,
)
from clusterra_gateway.webhooks.receivers import Receivers
from clusterra_gateway.webhooks.records import WebhookRecords
from clusterra_gateway.webhooks.signing_secrets import new_secret, old_secret_until, rotated

api = caller_routes(WEBHOOK_ID, reads=Needs("webhooks:read", "admin"), changes=Needs("webhooks:write", "admin"))


class DeliveryHandlers:
    """The handlers of deliveries."""

    def __init__(self, records: WebhookRecords, receivers: Receivers, once: AnswerOnce) -> None:
        self._records = records
        self._receivers = receivers
        self._once = once

    @api.post("webhooks_test", f"{WEBHOOK}/test", result=AttemptView)
    async def test(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Sends a test event of the kind `webhook.test` in one attempt, and returns its outcome."""
        stored = await self._records.get(caller.member.tenant, path_id(request, WEBHOOK_ID))
        return json_response(AttemptView.of(await self._receivers.test(caller.member.tenant, stored.webhook)))

    @api.post(
        "webhooks_rotate_secret",
        f"{WEBHOOK}/secret",
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=RotateSecret,
        result=RotatedSecret,
    )
    async def rotate(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Creates a new secret. For `overlap_seconds`, deliveries are signed with the old one as well.

        With `overlap_seconds` 0 all old secrets end at once. At most two are valid at a time: while an old one is, a
        further rotation with an overlap is 409, which says until when. With an Idempotency-Key that has made a secret
        already, 409: it is not shown again.
        """
        webhook_id, wanted = path_id(request, WEBHOOK_ID), await body(request, RotateSecret)
        act = partial(self._rotated, caller.member, webhook_id, timedelta(seconds=wanted.overlap_seconds))
        return await self._once.answer(request, caller.owner_key, wanted, act)

    async def _rotated(self, actor: Member, webhook_id: str, overlap: timedelta) -> RotatedSecret:
        new, at = new_secret(), now()
        webhook = await self._records.change(
            actor, webhook_id, "webhook.secret_rotated", lambda current: rotated(current, new, at, overlap)
        )
        return RotatedSecret(id=webhook.id, secret=new.text, old_secret_until=old_secret_until(webhook, at))

    @api.post("webhooks_replay", f"{WEBHOOK}/replay", body=Replay, result=WebhookView)
    async def replay(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Delivers the events since a time again, and continues from there.

        Each has the same `webhook-id` as before, by which a receiver recognises it. A webhook that failures have
        disabled works again. 409 for one that an admin has disabled.
        """
        webhook_id, wanted = path_id(request, WEBHOOK_ID), await body(request, Replay)
        at = now()
        if not at - timedelta(hours=MAX_REPLAY_HOURS) - CLOCK_SKEW <= wanted.after <= at + CLOCK_SKEW:
            raise InvalidRequest(
                "after: it is in the future, or too long ago",
                hint=f"events can be delivered again for {MAX_REPLAY_HOURS} hours; the archive has older ones",
            )
        begun = deliver_from(wanted.after)

        def changed(current: Webhook) -> Webhook:
            if not current.enabled:
                raise Conflict("this webhook is disabled", hint="enable it first, and then replay")
            return current.model_copy(update={"deliver_from": begun})

        webhook = await self._records.change(caller.member, webhook_id, "webhook.replayed", changed)
        state = await self._receivers.state(caller.member.tenant, webhook.id)
        return json_response(WebhookView.of(webhook, state))

    @api.get("webhooks_deliveries", f"{WEBHOOK}/deliveries", query=DeliveriesQuery, result=Deliveries)
    async def deliveries(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the deliveries of a webhook, the newest first: the last 1,000, of at most 7 days."""
        wanted, tenant = query(request, DeliveriesQuery), caller.member.tenant
        stored = await self._records.get(tenant, path_id(request, WEBHOOK_ID))
        asked = ReadDeliveries(webhook_id=stored.webhook.id, **wanted.model_dump())
        return json_response(Deliveries.of(await self._receivers.page(tenant, asked)))
