"""The routes of webhooks, for admins: create, list, read, change, delete."""

import asyncio
import secrets
from datetime import datetime
from typing import Any

from aiohttp import web
from clusterra_contracts.identity import now
from clusterra_contracts.rpc.webhooks import DeliveryPage
from clusterra_contracts.webhooks import DeliverFrom, Webhook, WebhookSecret
from clusterra_runtime.nats.registry import Registry

from clusterra_gateway.http.answers.responses import json_response, no_content
from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.http.requests.parameters import Parameter, body, path_id
from clusterra_gateway.http.routes.route import Named
from clusterra_gateway.idempotency.key import IDEMPOTENCY_KEY
from clusterra_gateway.idempotency.once import AnswerOnce
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.webhooks.checks import check_clusters, check_kinds, check_secret, check_url
from clusterra_gateway.webhooks.models import MadeWebhook, NewWebhook, WebhookChange, WebhookList, WebhookView
from clusterra_gateway.webhooks.receivers import Receivers
from clusterra_gateway.webhooks.records import WebhookRecords
from clusterra_gateway.webhooks.signing_secrets import new_secret

WEBHOOKS = "/v1/webhooks"
WEBHOOK = f"{WEBHOOKS}/{{webhook_id}}"
WEBHOOK_ID = Parameter("webhook_id", "path", "^wh_[0-9a-f]{16}$")
_NEW = DeliveryPage(state="working", deliveries=())
"""The state of a webhook that has just taken the test event."""

api = caller_routes(WEBHOOK_ID, reads=Needs("webhooks:read", "admin"), changes=Needs("webhooks:write", "admin"))


class WebhookHandlers:
    """The handlers of webhooks."""

    def __init__(
        self, records: WebhookRecords, receivers: Receivers, registry: Registry, once: AnswerOnce, *, plain_http: bool
    ) -> None:
        """`plain_http`: whether this installation allows networks to which deliveries go without TLS."""
        self._records = records
        self._receivers = receivers
        self._registry = registry
        self._once = once
        self._plain_http = plain_http

    @api.post(
        "webhooks_create",
        WEBHOOKS,
        status=201,
        parameters=(IDEMPOTENCY_KEY,),
        body=NewWebhook,
        result=MadeWebhook,
        names=(Named(WEBHOOK, "/id"),),
    )
    async def create(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Creates a webhook: the events from now on are delivered to a URL in order, signed as Standard Webhooks says.

        A test event is sent first. 422 if the receiver does not answer with a status of 200 to 299; nothing is created
        then. `secret` verifies the signatures: the receiver can verify the test event if the request has a secret that
        the receiver knows. Otherwise a new one is made: keep it, it is not shown again. 409 for more than 50 webhooks.

        With an Idempotency-Key that has made a webhook already, 409 names it: its secret is not shown again.
        """
        wanted = await body(request, NewWebhook)
        tenant = caller.member.tenant
        self._check(tenant, wanted.fields)
        if wanted.secret is not None:
            check_secret(wanted.secret, wanted.format)

        async def create() -> MadeWebhook:
            await self._records.check_room(tenant)
            at = now()
            webhook = Webhook(
                id=f"wh_{secrets.token_hex(8)}",
                secrets=(new_secret() if wanted.secret is None else WebhookSecret(text=wanted.secret),),
                deliver_from=deliver_from(at),
                created_by=caller.member.user,
                created_at=at,
                **wanted.fields,
            )
            await self._receivers.check(tenant, webhook)
            await self._records.create(caller.member, webhook)
            secret = webhook.secrets[0].text if webhook.format == "standard" else ""
            return MadeWebhook(**WebhookView.of(webhook, _NEW).model_dump(), secret=secret)

        return await self._once.answer(request, caller.owner_key, wanted, create)

    @api.get("webhooks_list", WEBHOOKS, result=WebhookList, names=(Named(WEBHOOK, "/webhooks/0/id"),))
    async def list(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Lists the webhooks of the caller's workspace, with the state of their deliveries."""
        tenant = caller.member.tenant
        webhooks = await self._records.all(tenant)
        states = await asyncio.gather(*(self._receivers.state(tenant, each.id) for each in webhooks))
        shown = tuple(WebhookView.of(*each) for each in zip(webhooks, states, strict=True))
        return json_response(WebhookList(webhooks=shown, total=len(shown)))

    @api.get("webhooks_get", WEBHOOK, result=WebhookView)
    async def get(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns a webhook, with the state of its deliveries."""
        tenant = caller.member.tenant
        stored = await self._records.get(tenant, path_id(request, WEBHOOK_ID))
        return await self._shown(tenant, stored.webhook)

    @api.patch("webhooks_change", WEBHOOK, body=WebhookChange, result=WebhookView)
    async def change(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Changes a webhook, disables or enables it.

        A test event is sent to a new URL first. 422 if the receiver does not answer with a status of 200 to 299;
        nothing is changed then. A webhook that is enabled again gets the events from then on: a replay delivers those
        before.
        """
        webhook_id, wanted = path_id(request, WEBHOOK_ID), await body(request, WebhookChange)
        tenant, given = caller.member.tenant, wanted.given
        present = (await self._records.get(tenant, webhook_id)).webhook
        self._check(tenant, given, present)
        if given.get("url", present.url) != present.url:
            await self._receivers.check(tenant, present.model_copy(update=given))
        begun = deliver_from(now()) if await self._begins(tenant, present, given) else None

        def changed(current: Webhook) -> Webhook:
            return current.model_copy(update=given if begun is None else {**given, "deliver_from": begun})

        return await self._shown(
            tenant, await self._records.change(caller.member, webhook_id, "webhook.changed", changed)
        )

    @api.delete("webhooks_delete", WEBHOOK)
    async def delete(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Deletes a webhook. Nothing is delivered to it any more, not even the events that wait."""
        await self._records.delete(caller.member, path_id(request, WEBHOOK_ID))
        return no_content()

    def _check(self, tenant: str, given: dict[str, Any], present: Webhook | None = None) -> None:
        """Raises InvalidRequest for wrong values. Clusters that the webhook names already may stay, even if deleted."""
        if "url" in given:
            check_url(given["url"], plain_http=self._plain_http)
        check_kinds(given.get("kinds", ()))
        known = {ref.cluster for ref in self._registry.clusters if ref.tenant == tenant}
        check_clusters(given.get("clusters", ()), known.union(() if present is None else present.clusters))

    async def _begins(self, tenant: str, present: Webhook, given: dict[str, Any]) -> bool:
        """Whether a change enables a webhook that an admin or the events service has disabled. Raises Unavailable."""
        if not given.get("enabled", False):
            return False
        if not present.enabled:
            return True
        page = await self._receivers.state(tenant, present.id)
        if page is None:
            raise Unavailable("nobody knows at the moment whether this webhook is disabled", hint="try again soon")
        return page.state == "disabled"

    async def _shown(self, tenant: str, webhook: Webhook) -> web.Response:
        return json_response(WebhookView.of(webhook, await self._receivers.state(tenant, webhook.id)))


def deliver_from(time: datetime) -> DeliverFrom:
    """A new beginning of deliveries, with the events that were stored at `time` or later."""
    return DeliverFrom(id=secrets.token_hex(8), time=time)
