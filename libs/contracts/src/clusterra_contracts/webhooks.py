"""A webhook: an HTTPS URL to which events of a tenant are delivered, signed as Standard Webhooks says.

The program at the URL is the receiver. An event that is sent to a webhook is a delivery, and each request an attempt.
"""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from clusterra_contracts.identity import Id, Moment, UserName, Wire

WebhookId = Annotated[str, StringConstraints(pattern=r"^wh_[0-9a-f]{16}$")]
WebhookName = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=r"^[^\x00-\x1f\x7f]*$")]
KindFilter = Annotated[str, StringConstraints(pattern=r"^[a-z]{1,32}\.([a-z_]{1,64}|\*)$")]
"""One kind of events such as `job.failed`, or all kinds of one family: `job.*`."""
SecretText = Annotated[str, StringConstraints(pattern=r"^whsec_[A-Za-z0-9+/]{32,88}={0,2}$")]
"""`whsec_` and 24 to 64 bytes in base64, as Standard Webhooks says."""

MAX_URL_CHARACTERS = 2000
MAX_SECRETS = 2
"""The present secret, and the old one while it is still valid."""
MAX_WEBHOOKS = 50
"""The most webhooks of one tenant."""


class WebhookSecret(Wire):
    """What deliveries are signed with."""

    text: SecretText = Field(repr=False)
    valid_until: Moment | None = None
    """Of an old secret: until when deliveries are signed with it, too."""

    def is_valid(self, at: datetime) -> bool:
        """Whether deliveries are signed with it at a time."""
        return self.valid_until is None or at < self.valid_until


class DeliverFrom(Wire):
    """A webhook gets the events that were stored at `time` or later. With a new `id`, delivery begins again there."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    time: Moment


WebhookFormat = Literal["standard", "slack", "eventbridge"]
"""What the receiver is, and so the form of each request: a program of the tenant's, which gets the event signed as
Standard Webhooks says; Slack; Amazon EventBridge."""
ArrayDelivery = Literal["tasks", "digest"]
"""How the tasks of an array are told: `tasks`: each with its own events. `digest`: the first failure at once, and all
the others counted in events `job.digest`."""


class Webhook(Wire):
    """The record of a webhook. The gateway alone writes it; the events service reads it, and delivers."""

    id: WebhookId
    name: WebhookName
    url: Annotated[str, StringConstraints(max_length=MAX_URL_CHARACTERS)] = Field(repr=False)
    """Its path or query may hold a secret of the receiver. It is in no log and in no event."""
    kinds: Annotated[tuple[KindFilter, ...], Field(max_length=50)] = ()
    """An event must be of one of these; empty: of any kind."""
    clusters: Annotated[tuple[Id, ...], Field(max_length=100)] = ()
    """An event must be of one of these clusters; empty: of any cluster of the tenant."""
    users: Annotated[tuple[UserName, ...], Field(max_length=100)] = ()
    """An event must be about a job, a run or a session of one of these users; empty: about anything."""
    format: Annotated[WebhookFormat, Field(exclude_if=lambda each: each == "standard")] = "standard"
    arrays: Annotated[ArrayDelivery, Field(exclude_if=lambda each: each == "tasks")] = "tasks"
    secrets: Annotated[tuple[WebhookSecret, ...], Field(min_length=1, max_length=MAX_SECRETS)] = Field(repr=False)
    """The newest first."""
    enabled: bool = True
    deliver_from: DeliverFrom
    created_by: str
    created_at: Moment


WebhookState = Literal["working", "retrying", "disabled"]
"""`retrying`: the last attempt failed. `disabled`: by an admin, or by the events service because of failures."""
