"""`webhook-test.<tenant>` and `webhook-deliveries.<tenant>`: a test of a webhook, and what became of its deliveries."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from clusterra_contracts.identity import Id, Moment, Wire
from clusterra_contracts.webhooks import Webhook, WebhookId, WebhookState

ATTEMPT_SECONDS = 10.0
"""How long a receiver may take to answer."""


class TestWebhook(Wire):
    """Send a test event to a webhook, which need not be stored, in one attempt. It is in no delivery log."""

    schema_name: ClassVar[str] = "webhook.test.v1"

    webhook: Webhook


class Attempt(Wire):
    """What came of sending one event once. What the receiver answered is never kept: only its status and size."""

    schema_name: ClassVar[str] = "webhook.attempt.v1"

    delivered: bool
    """Whether the receiver answered with a status of 200 to 299."""
    status: Annotated[int, Field(ge=100, le=999)] | None = None
    """The status of the answer; None without one."""
    answer_bytes: Annotated[int, Field(ge=0)] = 0
    """The size of the answer's body, as far as it was read."""
    seconds: Annotated[float, Field(ge=0)]
    problem: Annotated[str, Field(max_length=200)] = ""
    """Why there is no answer, such as `the host has no address`, or why Slack refused the message."""


class ReadDeliveries(Wire):
    """Read the delivery log of a webhook, the newest delivery first."""

    schema_name: ClassVar[str] = "webhook.read.v1"

    webhook_id: WebhookId
    failed_only: bool = False
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, StringConstraints(max_length=200)] | None = None


class Delivery(Wire):
    """An event that was sent to a webhook, and its last attempt."""

    message_id: str
    """The `webhook-id` of its requests."""
    event_id: str
    kind: str
    cluster: Id
    subject: str
    time: Moment
    """When the last attempt ended."""
    attempts: Annotated[int, Field(ge=1)]
    given_up: bool = False
    """Whether it was given up after a day of attempts, so that the next event followed."""
    last: Attempt


class DeliveryPage(Wire):
    """One page of deliveries; `cursor` continues after it and is None at the end."""

    schema_name: ClassVar[str] = "webhook.deliveries.v1"

    state: WebhookState
    failing_since: Moment | None = None
    """When the first failed attempt since the last success was made."""
    next_attempt_at: Moment | None = None
    disabled_reason: Annotated[str, Field(max_length=200)] = ""
    deliveries: tuple[Delivery, ...]
    cursor: str | None = None
