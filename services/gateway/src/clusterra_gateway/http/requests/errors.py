"""Errors of a request: one type for each answer that a client can act on.

`http.answers.problems` gives each type its HTTP status. The type's name, in kebab case, ends the URL of the problem's
`type`, where its docstring is served.
"""

from dataclasses import dataclass
from urllib.parse import quote

type Location = tuple[int | str, ...]
"""Where something is in a body, such as `("job", "nodes")`."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """What is wrong with one field of a request: `place` is where it is, such as `#/job/nodes` or `limit`."""

    where: str
    """`body` or `query`."""
    place: str
    detail: str


def pointer(location: Location) -> str:
    """A JSON pointer (RFC 6901) in the form of a URI fragment, which RFC 9457 uses."""
    return "#" + "".join(f"/{quote(str(part).replace('~', '~0').replace('/', '~1'))}" for part in location)


class RequestError(Exception):
    """A request that is not carried out. Its texts reach the caller: they hold no secret and no other tenant's data.

    `hint` says what the caller can do; `code` is Slurm's own error number where there is one; `retry_after_seconds`
    says when the same request may succeed; `errors` are the fields that are wrong.
    """

    def __init__(
        self,
        detail: str,
        *,
        hint: str = "",
        code: int | None = None,
        retry_after_seconds: int | None = None,
        errors: tuple[FieldError, ...] = (),
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.code = code
        self.retry_after_seconds = retry_after_seconds
        self.errors = errors


class InvalidRequest(RequestError):
    """The request is malformed."""


class Unauthenticated(RequestError):
    """The request carries no credential, or one that is invalid or expired."""


class Forbidden(RequestError):
    """The caller is known but not allowed to do this."""


class NotFound(RequestError):
    """The thing does not exist or belongs to another tenant. The two cases get the same answer on purpose."""


class Conflict(RequestError):
    """The present state does not allow the request."""


class TooLarge(RequestError):
    """The body, or a part of it, is larger than allowed."""


class RangeNotSatisfiable(RequestError):
    """The wanted part begins behind the end of what there is."""

    def __init__(self, detail: str, *, size: int, hint: str) -> None:
        """`size`: how many bytes there are."""
        super().__init__(detail, hint=hint)
        self.size = size


class UnsupportedMedia(RequestError):
    """The body has a media type that this route does not read."""


class KeyReused(RequestError):
    """An Idempotency-Key was sent again with a different request."""


class InFlight(RequestError):
    """A request with the same Idempotency-Key is being carried out."""


class OutcomeUnknown(RequestError):
    """The request was passed on and not confirmed: it may have been carried out."""


class Rejected(RequestError):
    """Slurm understood the request and rejected it."""


class NotDelivered(RequestError):
    """The test event of a webhook was not delivered, so nothing was changed."""


class QuotaExceeded(RequestError):
    """The projected cost of the job does not fit into what is left of a quota."""


class ConfirmationRequired(InvalidRequest):
    """The job is expected to cost more per hour than the cluster lets pass without a confirmation in the request."""


class TooManyRequests(RequestError):
    """The caller sends requests faster than allowed."""


class BadUpstream(RequestError):
    """A service behind the gateway failed in a way that the caller cannot fix."""


class Unavailable(RequestError):
    """A service behind the gateway does not answer now. The same request may succeed later."""
