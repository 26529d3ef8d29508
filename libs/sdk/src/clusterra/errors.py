"""The errors of the SDK. The gateway's own have the members of its problems, and say what can be done.

The texts never contain a token. They may contain text of other people, such as the name of a job: show them as text.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusterra.exchange import Answer

PROBLEM = "application/problem+json"
_SHOWN = 200
_MAX_TEXT = 4000


class ClusterraError(Exception):
    """Everything that the SDK raises by itself."""


class Unreachable(ClusterraError):
    """Nobody answers at the gateway's address, or no answer came to its end."""

    def __init__(self, url: str, error: str) -> None:
        super().__init__(f"{url} cannot be reached: {error}")
        self.url = url


class NotClusterra(ClusterraError):
    """What answers is not the gateway, such as a proxy with a page of its own."""

    def __init__(self, url: str, status: int, body: bytes) -> None:
        self.url = url
        self.status = status
        super().__init__(f"{url} answered {status}, but not as a Clusterra gateway: {shown(body)!r}")


class AnswerTooLong(ClusterraError):
    """An answer is longer than the SDK keeps in memory."""


class StreamEnded(ClusterraError):
    """A stream ended for good before it was complete, and cannot be resumed."""


class BucketRefused(ClusterraError):
    """The server of the bucket refused a request, or failed. `code` is S3's own word, such as `AccessDenied`."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(f"the server of the bucket answered {status} ({code or 'without a reason'})")
        self.status = status
        self.code = code


class FileChanged(ClusterraError):
    """A file was changed while it was copied: what was copied is not one version of it."""


class DeleteRefused(ClusterraError):
    """A folder is not made equal, because all files of its copy would be deleted."""


class UnsafeName(ClusterraError):
    """A file of the bucket has a name that no file of this machine may have."""


class WaitTimeout(ClusterraError, TimeoutError):
    """A job has not ended within the time that the caller gave. It goes on."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field of a request."""

    detail: str
    pointer: str | None = None
    """A JSON pointer into the body, such as `#/job/nodes`."""
    parameter: str | None = None
    """The name of a query parameter."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What the gateway says of an error (RFC 9457, and members of its own)."""

    status: int
    type: str
    detail: str
    hint: str | None = None
    errors: tuple[FieldError, ...] = ()
    code: int | None = None
    request_id: str | None = None
    retry_after_seconds: float | None = None


class ApiError(ClusterraError):
    """The gateway refused a request, or failed. `str()` is the detail, and then the hint."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem.detail}\n{problem.hint}" if problem.hint else problem.detail)
        self.problem = problem

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def type(self) -> str:
        """The type of the problem, such as `/v1/problems/quota-exceeded`: programs decide by it."""
        return self.problem.type

    @property
    def detail(self) -> str:
        """What is wrong."""
        return self.problem.detail

    @property
    def hint(self) -> str | None:
        """What can be done."""
        return self.problem.hint

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """The fields that are wrong, where these are known."""
        return self.problem.errors

    @property
    def code(self) -> int | None:
        """Slurm's own error number."""
        return self.problem.code

    @property
    def request_id(self) -> str | None:
        """The id by which the operators find the request in their logs."""
        return self.problem.request_id


class SignInNeeded(ApiError):
    """401: there is no token, or it is wrong, revoked or expired."""


class Forbidden(ApiError):
    """403: the caller is known, but may not do this."""


class QuotaExceeded(Forbidden):
    """403: the job does not fit into what is left of a quota."""


class NotFound(ApiError):
    """404: there is no such thing, or the caller may not see it."""


class Refused(ApiError):
    """4xx: the request is wrong, or the present state does not allow it."""


class ConfirmationRequired(Refused):
    """409: the job would cost more than the cluster lets pass without `confirmed_usd_per_hour`."""


class TooManyRequests(ApiError):
    """429: the caller sends more than they may, even after waiting as long as the gateway asked for."""


class OutcomeUnknown(ApiError):
    """504: nobody knows whether the request was carried out."""


class Unavailable(ApiError):
    """502, 503, 504: something behind the gateway does not answer. The same request may succeed later."""


_BY_TYPE: Mapping[str, type[ApiError]] = {
    "quota-exceeded": QuotaExceeded,
    "confirmation-required": ConfirmationRequired,
    "outcome-unknown": OutcomeUnknown,
}
_BY_STATUS: Mapping[int, type[ApiError]] = {
    401: SignInNeeded,
    403: Forbidden,
    404: NotFound,
    429: TooManyRequests,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def error_of(url: str, answer: Answer) -> ClusterraError:
    """The error that an answer with a status of 300 or more is, or one that should have been JSON and is not."""
    problem = problem_of(answer)
    if problem is None:
        return NotClusterra(url, answer.status, answer.body)
    kind = _BY_TYPE.get(problem.type.rpartition("/")[2]) or _BY_STATUS.get(problem.status)
    if kind is None:
        kind = Refused if 400 <= problem.status < 500 else ApiError
    return kind(problem)


def problem_of(answer: Answer) -> Problem | None:
    """The problem in an answer; None where it has none that can be read.

    An error in slurmrestd's shape becomes a problem with the description in it, and other JSON objects become one with
    the beginning of their text.
    """
    if not media_type(answer).endswith("json"):
        return None
    try:
        members = answer.json
    except ValueError:
        return None
    if not isinstance(members, dict):
        return None
    if media_type(answer) != PROBLEM or not isinstance(members.get("detail"), str):
        described = _described(members.get("errors"))
        return Problem(answer.status, "about:blank", described or f"{answer.status}: {shown(answer.body)}")
    return Problem(
        status=answer.status,
        type=_text(members, "type") or "about:blank",
        detail=members["detail"][:_MAX_TEXT],
        hint=_text(members, "hint"),
        errors=_fields(members.get("errors")),
        code=code if isinstance(code := members.get("code"), int) else None,
        request_id=_text(members, "request_id"),
        retry_after_seconds=retry_after(answer),
    )


def retry_after(answer: Answer) -> float | None:
    """The seconds after which the gateway wants to be asked again; None where it does not say so in seconds."""
    given = answer.headers.get("retry-after", "").strip()
    return float(given) if given.isascii() and given.isdecimal() and len(given) <= 6 else None


def media_type(answer: Answer) -> str:
    """The type of the body, without its parameters."""
    return answer.headers.get("content-type", "").partition(";")[0].strip().lower()


def shown(body: bytes) -> str:
    """The beginning of a body that nobody expected: printable characters on one line."""
    text = " ".join(body[: _SHOWN * 8].decode(errors="replace").split())
    return "".join(each if each.isprintable() else "\ufffd" for each in text[:_SHOWN])


def _text(members: Mapping[str, Any], name: str) -> str | None:
    value = members.get(name)
    return value[:_MAX_TEXT] if isinstance(value, str) and value else None


def _described(errors: object) -> str | None:
    """The description of the first error in slurmrestd's shape."""
    first = errors[0] if isinstance(errors, list) and errors else None
    return _text(first, "description") if isinstance(first, dict) else None


def _fields(members: object) -> tuple[FieldError, ...]:
    if not isinstance(members, Sequence) or isinstance(members, str):
        return ()
    return tuple(
        FieldError(_text(each, "detail") or "", _text(each, "pointer"), _text(each, "parameter"))
        for each in members[:20]
        if isinstance(each, dict)
    )
