"""Errors of the API server."""

from pydantic import ValidationError

from clusterra_edge_agent.kubernetes.client.resources import Status

_RETRY_AFTER_SECONDS = 1.0


class ApiError(Exception):
    """The API server did not carry out the call. The text says why."""


class Unavailable(ApiError):
    """The API server is unreachable or cannot answer now. Whether the call was carried out is unknown."""


class Throttled(Unavailable):
    """The API server throttles the caller (429)."""

    def __init__(self, reason: str, *, retry_after_seconds: float) -> None:
        super().__init__(reason)
        self.retry_after_seconds = retry_after_seconds


class Conflict(ApiError):
    """The object is not in the state that the call requires (409)."""


class Invalid(ApiError):
    """The call is not valid for this object (422)."""


class NotFound(ApiError):
    """There is no such object or collection (404)."""


class Forbidden(ApiError):
    """The agent has no permission for this call (403)."""


class NotHolder(ApiError):
    """The call was not sent, because another agent may act now."""


class Expired(ApiError):
    """The resource version is too old to continue from: list again (410)."""


def error_of_answer(code: int, body: bytes, retry_after: str | None) -> ApiError:
    """Returns the error of an answer with an HTTP status of 300 or more."""
    try:
        message = Status.model_validate_json(body).message
    except ValidationError:
        message = body[:200].decode(errors="replace")
    return error_of_status(code, message, retry_after)


def error_of_status(code: int, message: str, retry_after: str | None) -> ApiError:
    """Returns the error of a Status, from an answer or from a watch."""
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
