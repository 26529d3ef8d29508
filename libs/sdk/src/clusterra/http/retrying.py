"""Sends a request until it is answered: which answers are final, which requests may be sent again, and when.

A change is sent again only if that does no harm: with an Idempotency-Key, if it is repeatable by its nature, or if it
was certainly not carried out.
"""

import random
import uuid
from dataclasses import dataclass, replace

from clusterra.errors import (
    ApiError,
    ClusterraError,
    NotClusterra,
    TooManyRequests,
    Unreachable,
    error_of,
    problem_of,
    retry_after,
)
from clusterra.exchange import Answer, Failure, Request, Retrying, Steps, now, pause, send

FIRST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 8.0
SETTLING_SECONDS = 120.0
"""How long an earlier request with the same key is awaited. The gateway settles its outcome within this time."""
_TRANSIENT = (502, 503, 504)
_IN_FLIGHT = "in-flight"
_UNKNOWN = "outcome-unknown"


@dataclass(frozen=True, slots=True)
class Retry:
    """What to do with a reply: try again after `after_seconds`, or after a pause that grows where that is None."""

    after_seconds: float | None
    within_seconds: float
    """Until this time after the first attempt."""


def keyed(request: Request) -> Request:
    """The request with a new key, if it makes something and has none."""
    if request.method != "POST" or request.repeatable or request.idempotency_key is not None:
        return request
    return replace(request, idempotency_key=uuid.uuid4().hex)


def is_safe_to_retry(request: Request) -> bool:
    """Whether the request may be sent again after it may have been carried out."""
    return request.method in ("GET", "HEAD") or request.repeatable or request.idempotency_key is not None


def decide(request: Request, reply: Answer | Failure) -> Retry | None:
    """Whether and when to send a request again; None for a reply that is final."""
    again = Retry(None, request.deadline_seconds)
    if isinstance(reply, Failure):
        return again if is_safe_to_retry(request) or not reply.sent else None
    if reply.status < 400:
        return None
    after = retry_after(reply)
    if reply.status == 429:
        return replace(again, after_seconds=after)
    problem = problem_of(reply)
    name = "" if problem is None else problem.type.rpartition("/")[2]
    if name in (_IN_FLIGHT, _UNKNOWN):
        # Without Retry-After nobody will ever know the outcome.
        settles = request.idempotency_key is not None and after is not None
        return Retry(after, SETTLING_SECONDS) if settles else None
    if reply.status in _TRANSIENT and is_safe_to_retry(request):
        return replace(again, after_seconds=after)
    return None


def pause_seconds(attempt: int, chance: float) -> float:
    """Exponential backoff with jitter, in seconds. `attempt` counts from 0; `chance` is a random number of 0 to 1."""
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(attempt, 20))
    return longest * (0.5 + chance / 2)


def ask(request: Request, url: str) -> Steps[Answer]:
    """The answer to a request, which is one of success. `url` is the gateway's address, for errors.

    Raises the errors of `clusterra.errors`.
    """
    request, began, attempt = keyed(request), (yield from now()), 0
    while True:
        reply = yield from send(request)
        retry = decide(request, reply)
        if retry is not None:
            wait = pause_seconds(attempt, random.random()) if retry.after_seconds is None else retry.after_seconds  # noqa: S311
            at = yield from now()
            left = began + retry.within_seconds - at
            if wait <= left:
                wait = max(wait, 0.05)
                yield from pause(wait, Retrying(reason_of(reply), at - began, wait, left))
                attempt += 1
                continue
        if isinstance(reply, Answer) and reply.status < 300:
            return reply
        raise failed(url, reply)


def failed(url: str, reply: Answer | Failure) -> ClusterraError:
    """The error of a reply that is no success."""
    return Unreachable(url, reply.error) if isinstance(reply, Failure) else error_of(url, reply)


def reason_of(reply: Answer | Failure) -> str:
    """Why a request is sent again, for people."""
    if isinstance(reply, Failure):
        return "the gateway does not answer"
    if reply.status == 429:
        return "the gateway asks to wait"
    if reply.status == 409:
        return "an earlier request with the same key is not settled yet"
    return f"the gateway answers {reply.status}"


def is_transient(error: ClusterraError) -> bool:
    """Whether an error is transient: the same read may succeed later. So "unknown" is never taken for "failed"."""
    match error:
        case Unreachable() | TooManyRequests():
            return True
        case ApiError() | NotClusterra():
            return error.status >= 500
    return False
