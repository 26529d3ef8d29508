"""Signs deliveries as Standard Webhooks says (standardwebhooks.com, version 1): HMAC-SHA256 of id, time and body."""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.webhooks import WebhookSecret

ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"
_PREFIX = "whsec_"


class SecretUnusable(ValueError):
    """A secret is not base64. The text does not repeat it."""


def message_id(ref: ClusterRef, event_id: str) -> str:
    """The id of an event in all its requests. It has the cluster, in which alone the id of an event is unique."""
    return f"msg_{hashlib.sha256(f'{ref.key}{event_id}'.encode()).hexdigest()[:32]}"


def valid_secrets(secrets: Sequence[WebhookSecret], at: datetime) -> tuple[WebhookSecret, ...]:
    """The secrets that sign at a time: the newest always, those before it while they are valid."""
    newest, *older = secrets
    return newest, *(each for each in older if each.is_valid(at))


def signed_headers(message: str, at: datetime, body: bytes, secrets: Sequence[WebhookSecret]) -> dict[str, str]:
    """The headers of a delivery at a time, signed with each secret that is valid then. Raises SecretUnusable."""
    timestamp = str(int(at.timestamp()))
    signatures = [_signature(each, message, timestamp, body) for each in valid_secrets(secrets, at)]
    return {ID: message, TIMESTAMP: timestamp, SIGNATURE: " ".join(signatures)}


def _signature(secret: WebhookSecret, message: str, timestamp: str, body: bytes) -> str:
    try:
        key = base64.b64decode(secret.text.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        raise SecretUnusable("a secret of the webhook is not base64") from None
    signed = f"{message}.{timestamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, 'sha256')).decode()}"
