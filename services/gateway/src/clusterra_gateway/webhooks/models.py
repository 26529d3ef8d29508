"""Webhooks as the API takes and shows them. A secret is only in the answer that makes it."""

from datetime import timedelta
from typing import Annotated, Any, Literal

from clusterra_contracts.bus.topology import EVENT
from clusterra_contracts.identity import Id, Moment, UserName, now
from clusterra_contracts.rpc.webhooks import Attempt, Delivery, DeliveryPage
from clusterra_contracts.webhooks import (
    MAX_URL_CHARACTERS,
    ArrayDelivery,
    KindFilter,
    SecretText,
    Webhook,
    WebhookFormat,
    WebhookName,
    WebhookState,
)
from pydantic import AfterValidator, Field, StringConstraints

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.parameters import Body, NotBoolean, Query, Time
from clusterra_gateway.idempotency.once import ShownOnce
from clusterra_gateway.webhooks.signing_secrets import old_secret_until

DAY = 86_400
MAX_OVERLAP_DAYS = 7
MAX_REPLAY_HOURS = round(EVENT.max_age_seconds / 3600)
"""For so long the stream keeps events."""
CLOCK_SKEW = timedelta(minutes=1)
"""How much the clock of a client that computes the time of a replay may differ."""


def _distinct[T](values: tuple[T, ...]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))


Url = Annotated[str, StringConstraints(max_length=MAX_URL_CHARACTERS, pattern=r"^https?://[!-~]+$")]
Kinds = Annotated[tuple[KindFilter, ...], Field(max_length=50), AfterValidator(_distinct)]
Clusters = Annotated[tuple[Id, ...], Field(max_length=100), AfterValidator(_distinct)]
Users = Annotated[tuple[UserName, ...], Field(max_length=100), AfterValidator(_distinct)]


class NewWebhook(Body):
    """A webhook to create."""

    name: WebhookName
    url: Url
    """Where events are sent by POST. It is visible ASCII; percent-encode other characters."""
    format: Literal["standard", "slack"] = "standard"
    """`standard`: signed events. `slack`: messages for people; `url` is that of an incoming webhook of Slack. It cannot
    be changed later."""
    kinds: Kinds = ()
    """Kinds of events such as `job.failed`, or all kinds of a family: `job.*`. Empty: all kinds."""
    clusters: Clusters = ()
    """Empty: all clusters of the workspace."""
    users: Users = ()
    """Only events about jobs, runs and sessions of these users. Empty: all events, also those about no user."""
    arrays: ArrayDelivery = "digest"
    """How tasks of arrays are told. `digest`: the first failure at once, all others counted in events `job.digest`.
    `tasks`: each task with its own events."""
    secret: SecretText | None = Field(default=None, repr=False)
    """What deliveries are signed with: `whsec_` and 24 to 64 random bytes in base64. A receiver that has it can verify
    the test event. null: a new one is made."""

    @property
    def fields(self) -> dict[str, Any]:
        """All but the secret, by their names."""
        return self.model_dump(exclude={"secret"})


class WebhookChange(Body):
    """What to change of a webhook. Fields that are not given stay as they are, and so do those that are null."""

    name: WebhookName | None = None
    url: Url | None = None
    kinds: Kinds | None = None
    clusters: Clusters | None = None
    users: Users | None = None
    arrays: ArrayDelivery | None = None
    enabled: bool | None = None
    """`true` begins again with the events from now on, also if failures have disabled the webhook."""

    @property
    def given(self) -> dict[str, Any]:
        """The fields that are given, by their names."""
        return {name: value for name in self.model_fields_set if (value := getattr(self, name)) is not None}


class RotateSecret(Body):
    """For how long deliveries are still signed with the present secret, too."""

    overlap_seconds: Annotated[int, Field(ge=0, le=MAX_OVERLAP_DAYS * DAY), NotBoolean] = DAY


class Replay(Body):
    """From when on to deliver again."""

    after: Time
    """At most 72 hours ago."""


class WebhookView(ResponseBody):
    """A webhook, without its secrets."""

    id: str
    name: str
    url: str
    format: WebhookFormat
    """What is sent: signed events (`standard`), or messages of Slack."""
    kinds: tuple[str, ...]
    clusters: tuple[str, ...]
    users: tuple[str, ...]
    arrays: ArrayDelivery
    enabled: bool
    """Whether an admin has it enabled. It stays `true` when failures disable the webhook: see `state`."""
    state: WebhookState | None
    """`working`; `retrying` after a failed attempt; `disabled` by an admin, or because of failures. null: unknown at
    the moment."""
    disabled_reason: str
    failing_since: Moment | None
    next_attempt_at: Moment | None
    deliver_from: Moment
    """Events stored at this time or later are delivered: that of its creation or enabling, or `after` of a replay."""
    old_secret_until: Moment | None
    """Until when deliveries are signed with the old secret, too; null: with the present one alone."""
    created_by: str
    created_at: Moment

    @classmethod
    def of(cls, webhook: Webhook, page: DeliveryPage | None) -> "WebhookView":
        """What admins see of a webhook. `page` is what the events service says of it; None if it does not answer."""
        state: WebhookState | None = None if page is None else page.state
        return cls.showing(
            webhook,
            state=state if webhook.enabled else "disabled",
            disabled_reason="" if page is None else page.disabled_reason,
            failing_since=None if page is None else page.failing_since,
            next_attempt_at=None if page is None else page.next_attempt_at,
            deliver_from=webhook.deliver_from.time,
            old_secret_until=old_secret_until(webhook, now()),
        )


class MadeWebhook(WebhookView, ShownOnce):
    """A new webhook. `secret` verifies its deliveries, and is shown only this once."""

    secret: str
    """Empty with the format `slack`: these messages are not signed."""


class WebhookList(ResponseBody):
    """All webhooks of a workspace, the oldest first."""

    webhooks: tuple[WebhookView, ...]
    total: int


class RotatedSecret(ShownOnce):
    """The new secret of a webhook, which is shown only this once; `id` is the webhook's."""

    secret: str
    old_secret_until: Moment | None
    """Until when deliveries are signed with the old secret, too; null: it has ended."""


class AttemptView(ResponseBody):
    """The outcome of one attempt to deliver an event."""

    delivered: bool
    """Whether the receiver answered with a status of 200 to 299."""
    status: int | None
    """The status of the answer; null without one."""
    answer_bytes: int
    """The size of the answer's body, as far as it was read. The body is not kept."""
    seconds: float
    problem: str
    """Why there is no answer, or why Slack refused the message; empty with another answer."""

    @classmethod
    def of(cls, attempt: Attempt) -> "AttemptView":
        """An attempt, for admins."""
        return cls.showing(attempt)


class DeliveryView(ResponseBody):
    """An event that was sent to a webhook, and its last attempt."""

    message_id: str
    """The header `webhook-id` of its requests, the same in every attempt."""
    event_id: str
    kind: str
    cluster_id: str
    subject: str
    time: Moment
    """When the last attempt ended."""
    attempts: int
    given_up: bool
    """Whether it was given up after a day of attempts, so that the next event followed."""
    last: AttemptView

    @classmethod
    def of(cls, delivery: Delivery) -> "DeliveryView":
        """A delivery, for admins."""
        return cls.showing(delivery, cluster_id=delivery.cluster, last=AttemptView.of(delivery.last))


class DeliveriesQuery(Query):
    """Which deliveries to list."""

    failed_only: bool = False
    """Only those whose last attempt failed."""
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, StringConstraints(max_length=200)] | None = None


class Deliveries(ResponseBody):
    """One page of deliveries, the newest first; `cursor` continues after it and is null at the end."""

    deliveries: tuple[DeliveryView, ...]
    cursor: str | None = None

    @classmethod
    def of(cls, page: DeliveryPage) -> "Deliveries":
        """A page, for admins."""
        return cls(deliveries=tuple(map(DeliveryView.of, page.deliveries)), cursor=page.cursor)
