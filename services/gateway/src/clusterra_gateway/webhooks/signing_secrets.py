"""The secrets with which deliveries are signed: new ones, those that callers bring, and their rotation."""

import base64
import binascii
import secrets
from datetime import datetime, timedelta

from clusterra_contracts.webhooks import Webhook, WebhookSecret

from clusterra_gateway.http.requests.errors import Conflict

SECRET_BYTES = 32
LEAST_BYTES, MOST_BYTES = 24, 64
"""Of a secret that a caller brings, as Standard Webhooks says."""
LEAST_DIFFERENT = 12
"""So many different bytes it must have. Of 24 random ones fewer than 17 differ once in a million."""
PREFIX = "whsec_"


def new_secret() -> WebhookSecret:
    """A new secret, in the form of Standard Webhooks."""
    return WebhookSecret(text=f"{PREFIX}{base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode()}")


def problem_of_secret(text: str) -> str:
    """What is wrong with a secret that a caller brings; empty for a usable one. It does not repeat the secret."""
    try:
        key = base64.b64decode(text.removeprefix(PREFIX), validate=True)
    except binascii.Error:
        return f"a secret is {PREFIX} and base64"
    if not LEAST_BYTES <= len(key) <= MOST_BYTES:
        return f"a secret has {LEAST_BYTES} to {MOST_BYTES} bytes, written in base64"
    if len(set(key)) < LEAST_DIFFERENT:
        return "a secret is random: this one can be guessed"
    return ""


def rotated(webhook: Webhook, new: WebhookSecret, at: datetime, overlap: timedelta) -> Webhook:
    """The webhook with a new secret. The present one stays valid for `overlap`; without an overlap, it ends at once.

    Raises Conflict for a format that is not signed, and if an overlap is wanted while an old secret is still valid: it
    stays so for as long as was promised.
    """
    if webhook.format != "standard":
        raise Conflict(
            f"nothing is signed with the format {webhook.format}", hint="change the url in place of a secret"
        )
    if not overlap:
        return webhook.model_copy(update={"secrets": (new,)})
    before = old_secret_until(webhook, at)
    if before is not None:
        raise Conflict(
            "two secrets of this webhook are valid already, the most allowed",
            hint=f"wait until {before:%Y-%m-%dT%H:%M:%SZ}, when the older one ends, or send overlap_seconds 0, which"
            " ends both at once",
        )
    ending = webhook.secrets[0].model_copy(update={"valid_until": at + overlap})
    return webhook.model_copy(update={"secrets": (new, ending)})


def old_secret_until(webhook: Webhook, at: datetime) -> datetime | None:
    """Until when the old secret is valid; None if there is none any more."""
    ends = [each.valid_until for each in webhook.secrets if each.valid_until is not None and each.is_valid(at)]
    return max(ends, default=None)
