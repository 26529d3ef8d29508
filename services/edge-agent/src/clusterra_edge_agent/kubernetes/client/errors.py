"""What the API server does not do, as errors."""

from pydantic import ValidationError

from clusterra_edge_agent.kubernetes.client.resources import Status

_RETRY_AFTER_SECONDS = 1.0


class ApiError(Exception):
    """The API server did not do what was asked; the text says why."""


class Unavailable(ApiError):
    """It cannot be reached, or cannot answer now; what has become of the call is unknown."""


class Throttled(Unavailable):
    """It refused for now (429)."""

    def __init__(self, reason: str, *, retry_after_seconds: float) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class Conflict(ApiError):
    """The object is not any more what the call said it must be (409)."""


class Invalid(ApiError):
    """What the call asks for cannot be of this object (422)."""


class NotFound(ApiError):
    """There is no such object, or no such collection (404)."""


class Forbidden(ApiError):
    """The agent has no right to do this (403)."""


class NotHolder(ApiError):
    """Nothing was asked: another agent may act by now."""


class Expired(ApiError):
    """The resource version is too old to go on from: list again (410)."""


def refusal(code: int, body: bytes, retry_after: str | None) -> ApiError:
    """The error of an answer with an HTTP status from 300 on."""
    try:
        message = Status.model_validate_json(body).message
    except ValidationError:
        message = body[:200].decode(errors="replace")
    return refusal_of(code, message, retry_after)


def refusal_of(code: int, message: str, retry_after: str | None) -> ApiError:
    """The error of a Status, as an answer or in a watch."""
    match code:
        case 403:
            return Forbidden(f"403: {message}")
        case 404:
            return NotFound(message)
        case 409:
            return Conflict(message)
        case 410:
            return Expired(message)
        case 422:
            return Invalid(message)
        case 429:
            seconds = float(retry_after) if retry_after and retry_after.isdigit() else _RETRY_AFTER_SECONDS
            return Throttled(message, retry_after_seconds=seconds)
        case _ if code >= 500 or code == 0:
            return Unavailable(f"{code}: {message}")
        case _:
            return ApiError(f"{code}: {message}")
