"""Why a request is refused: one type for each answer a client can act on."""


class Refused(Exception):
    """A request is not carried out. The texts reach the caller: no secret and nothing of another tenant in them.

    `hint` says what to do; `code` is Slurm's own error number where there is one.
    """

    def __init__(self, detail: str, *, hint: str = "", code: int | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint
        self.code = code


class InvalidRequest(Refused):
    """The request itself is malformed."""


class Unauthenticated(Refused):
    """Nobody is signed in, or the sign-in is not valid (any more)."""


class Forbidden(Refused):
    """The caller is known and may not do this."""


class NotFound(Refused):
    """It does not exist, or it is another tenant's: the two answers are the same on purpose."""


class Conflict(Refused):
    """What is there now does not allow it."""


class TooLarge(Refused):
    """A body or a part of it is larger than allowed."""


class UnsupportedMedia(Refused):
    """The body is of a type that is not read here."""


class KeyReused(Refused):
    """An Idempotency-Key came back with another request."""


class Rejected(Refused):
    """Slurm understood the request and refused it."""


class TooManyRequests(Refused):
    """The caller asks more often than it may."""


class BadUpstream(Refused):
    """A part behind the gateway answered in a way that the caller cannot mend."""


class Unavailable(Refused):
    """A part behind the gateway does not answer now; the same request may succeed later."""
