"""The job comment that the proxy writes and accounting stores: `clusterra:user=alice;uid=5001;key=...`.

A user can write any comment with plain sbatch, so a comment proves nothing. Only Slurm's uid proves who owns a job.
"""

import re
from dataclasses import dataclass, fields
from urllib.parse import quote, unquote

PREFIX = "clusterra:"
_UNQUOTED = "@+/:,"
_TRACEPARENT = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""A `traceparent` of W3C Trace Context, version 00."""


@dataclass(frozen=True)
class Comment:
    """The values in a job's comment. Empty values are omitted."""

    user: str = ""
    """The owner's name: a job record holds only the uid."""
    uid: str = ""
    user_email: str = ""
    key: str = ""
    """The submit's idempotency key."""
    trace: str = ""
    """The submit's `traceparent`; any other text is lost when the comment is parsed."""

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return PREFIX + ";".join(f"{name}={quote(value, safe=_UNQUOTED)}" for name, value in values if value)

    @classmethod
    def parse(cls, text: str) -> "Comment":
        """Parse a comment. A comment that the proxy did not write gives empty values; unknown names are skipped.

        A `trace` that is no `traceparent` is empty too: OpenTelemetry would log a warning about each.
        """
        if not text.startswith(PREFIX):
            return cls()
        pairs = (pair.partition("=") for pair in text.removeprefix(PREFIX).split(";"))
        known = {field.name for field in fields(cls)}
        values = {name: unquote(value) for name, _, value in pairs if name in known}
        if not _TRACEPARENT.fullmatch(values.get("trace", "")):
            values.pop("trace", None)
        return cls(**values)
