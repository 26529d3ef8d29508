"""A submit of the spool, and its file: JSON with a MAC, so that a file which somebody changed is no submit."""

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

FORMAT_VERSION = 1
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""The longest file of a submit."""
_KEY = re.compile(r"[0-9a-f]{32}")
_CLUSTER = re.compile(r"[A-Za-z0-9._-]{1,100}")
_MAX_TEXT = 4000


class BadRecord(Exception):
    """The file is no submit of this spool."""


@dataclass(frozen=True, slots=True)
class SpooledSubmit:
    """A submit, whom it is for, and what is known of its deliveries. Moments are seconds since 1970."""

    key: str
    """Its Idempotency-Key."""
    url: str
    body: Mapping[str, Any]
    """What is sent. Empty once it was delivered."""
    spooled_at: float
    token_mark: str
    """A MAC of the token with which it was spooled: it shows that a token is the same, and not which one it is."""
    cluster: str | None = None
    """None: the only cluster of the person, which the first delivery writes down."""
    member: str | None = None
    """The person's id at the gateway, as soon as a delivery began."""
    first_sent_at: float | None = None
    """When the first delivery began. From then on there may be a job."""
    job_id: str | None = None
    why: str | None = None
    """Why it is not delivered by itself any more."""


def written(submit: SpooledSubmit, secret: bytes) -> bytes:
    """The content of the file. Raises ValueError where it would be too long."""
    text = json.dumps(asdict(submit), separators=(",", ":"))
    content = json.dumps({"form": FORMAT_VERSION, "record": text, "mac": _mac(text, secret)}).encode()
    if len(content) > MAX_RECORD_BYTES:
        raise ValueError(f"the submit is longer than {MAX_RECORD_BYTES} bytes")
    return content


def read(content: bytes, secret: bytes) -> SpooledSubmit:
    """The submit in the content of a file. Raises BadRecord."""
    if len(content) > MAX_RECORD_BYTES:
        raise BadRecord("it is too long")
    try:
        whole = json.loads(content)
        text, mac = whole["record"], whole["mac"]
        if whole["form"] != FORMAT_VERSION:
            raise BadRecord("it has the form of another version")
        if not hmac.compare_digest(_mac(text, secret), mac):
            raise BadRecord("it was changed, or belongs to another spool")
        return _submit(json.loads(text))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise BadRecord("it is no record of a submit") from None


def token_mark(token: str, secret: bytes) -> str:
    """What shows that a token is the same as another one."""
    return hmac.new(secret, b"token:" + token.encode(), hashlib.sha256).hexdigest()


def _mac(text: str, secret: bytes) -> str:
    return hmac.new(secret, b"record:" + text.encode(), hashlib.sha256).hexdigest()


def _submit(found: dict[str, Any]) -> SpooledSubmit:
    """Raises TypeError, KeyError, ValueError."""
    submit = SpooledSubmit(**{each.name: found[each.name] for each in fields(SpooledSubmit)})
    texts = (submit.cluster, submit.member, submit.job_id, submit.why)
    moments = (submit.spooled_at, submit.first_sent_at or 0.0)
    if not (
        _KEY.fullmatch(submit.key)
        and submit.url.startswith(("http://", "https://"))
        and isinstance(submit.body, dict)
        and isinstance(submit.token_mark, str)
        and all(each is None or (isinstance(each, str) and len(each) <= _MAX_TEXT) for each in texts)
        and all(isinstance(each, int | float) and 0 <= each < 1e11 for each in moments)
        and (submit.cluster is None or _CLUSTER.fullmatch(submit.cluster))
    ):
        raise ValueError("a member is wrong")
    return submit
