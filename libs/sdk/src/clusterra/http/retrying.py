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


@dataclass(slots=True)
class Attempts:
    """Counts the attempts of an operation that fail, and pauses between them."""

    began: float | None = None
    """The time from which attempts count; None for that of the first failure."""
    at_least: int = 1
    """The attempts that are made also where each takes long."""
    count: int = 0

    def failed(self, reason: str, within_seconds: float, after_seconds: float | None = None) -> Steps[bool]:
        """Pause before the next attempt, and return whether there is one. `reason` is for people.

        It ends `within_seconds` after the beginning. `after_seconds` is a pause that the server has asked for.
        """
        at = yield from now()
        began = self.began = at if self.began is None else self.began
        wait = pause_seconds(self.count, random.random()) if after_seconds is None else after_seconds  # noqa: S311
        left = began + within_seconds - at
        self.count += 1
        if wait > left and self.count >= self.at_least:
            return False
        wait = max(wait, 0.05)
        yield from pause(wait, Retrying(reason, at - began, wait, max(wait, left)))
        return True

    def progressed(self) -> None:
        """Count anew, from the next failure on."""
        self.began, self.count = None, 0


def ask(request: Request, url: str) -> Steps[Answer]:
    """The answer to a request, which is one of success. `url` is the gateway's address, for errors.

    Raises the errors of `clusterra.errors`.
    """
    request, attempts = keyed(request), Attempts((yield from now()))
    while True:
        reply = yield from send(request)
        retry = decide(request, reply)
        if retry is not None and (
            yield from attempts.failed(reason_of(reply), retry.within_seconds, retry.after_seconds)
        ):
            continue
        if isinstance(reply, Answer) and reply.status < 300:
            return reply
        raise failed(url, reply)


def failed(url: str, reply: Answer | Failure) -> ClusterraError:
    """The error of a reply that is no success."""
    return Unreachable(url, reply.error) if isinstance(reply, Failure) else error_of(url, reply)


def reason_of(reply: Answer | Failure, server: str = "the gateway") -> str:
    """Why a request is sent again, for people."""
    if isinstance(reply, Failure):
        return f"{server} does not answer"
    if reply.status == 429:
        return f"{server} asks to wait"
    if reply.status == 409:
        return "an earlier request with the same key is not settled yet"
    return f"{server} answers {reply.status}"


def is_transient(error: ClusterraError) -> bool:
    """Whether an error is transient: the same read may succeed later. So "unknown" is never taken for "failed"."""
    match error:
        case Unreachable() | TooManyRequests():
            return True
        case ApiError() | NotClusterra():
            return error.status >= 500
    return False
