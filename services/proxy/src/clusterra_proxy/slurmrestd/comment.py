"""The job comment that the proxy writes and accounting stores: `clusterra:user=alice;uid=5001;key=...`.

A user can write any comment with plain sbatch, so a comment proves nothing. Only Slurm's uid proves who owns a job.
"""

from dataclasses import dataclass, fields
from urllib.parse import quote, unquote

PREFIX = "clusterra:"
_UNQUOTED = "@+/:,"


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
    """The submit's `traceparent`."""

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return PREFIX + ";".join(f"{name}={quote(value, safe=_UNQUOTED)}" for name, value in values if value)

    @classmethod
    def parse(cls, text: str) -> "Comment":
        """Parse a comment. A comment that the proxy did not write gives empty values; unknown names are skipped."""
        if not text.startswith(PREFIX):
            return cls()
        pairs = (pair.partition("=") for pair in text.removeprefix(PREFIX).split(";"))
        known = {field.name for field in fields(cls)}
        return cls(**{name: unquote(value) for name, _, value in pairs if name in known})
