"""What a client of the HTTP API gets in place of the answer that it wanted."""


class UnexpectedAnswerError(RuntimeError):
    """The gateway answered with an unexpected status; the text has its problem document."""


class UnavailableError(UnexpectedAnswerError):
    """The gateway, or a service behind it, is not available now (status 503, 504; 502 of a reverse proxy), or an equal
    request is in flight (409 with Retry-After)."""
