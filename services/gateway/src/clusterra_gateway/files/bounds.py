"""The bounds of an installation: how long URLs live, and how large files may be."""

from dataclasses import dataclass

from clusterra_gateway.http.requests.errors import InvalidRequest, TooLarge


@dataclass(frozen=True)
class Bounds:
    """The lifetime of a URL unless a client wants another one, the longest one, and the largest file."""

    default_seconds: int
    max_seconds: int
    max_bytes: int

    def lifetime(self, wanted: int | None) -> int:
        """The lifetime of a URL. Raises InvalidRequest for a longer one than is allowed."""
        if wanted is None:
            return min(self.default_seconds, self.max_seconds)
        if wanted > self.max_seconds:
            raise InvalidRequest(
                f"a URL may live for {self.max_seconds} s here, not for {wanted} s",
                hint="ask again when it has ended: an upload in parts goes on",
            )
        return wanted

    def within(self, size: int) -> int:
        """The size of a file. Raises TooLarge for a larger one than is allowed."""
        if size > self.max_bytes:
            raise TooLarge(f"a file may have {self.max_bytes} bytes here", hint="send it in several files")
        return size
