"""The job comment that the proxy writes and accounting stores: `clusterra:user=alice;uid=5001;key=...`.

A user can write any comment with plain sbatch, so a comment proves nothing. Only Slurm's uid proves who owns a job.
"""

import re
from dataclasses import dataclass, fields
from urllib.parse import quote, unquote

from clusterra_contracts.identity import TEMPLATE_ID_PATTERN

PREFIX = "clusterra:"
_UNQUOTED = "@+/:,"
_TRACEPARENT = re.compile("00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
"""A `traceparent` of W3C Trace Context, version 00."""
_FORMS = {
    "user": re.compile(r"[a-z_][a-z0-9_-]{0,30}"),
    "uid": re.compile(r"[0-9]{1,10}"),
    "user_email": re.compile(r"[^\x00-\x1f\x7f]{1,320}"),
    "key": re.compile(r"[A-Za-z0-9_-]{8,64}"),
    "trace": _TRACEPARENT,
    "template": re.compile(TEMPLATE_ID_PATTERN),
}
"""The forms of the values that the proxy writes. A comment of up to 64 KB can hold anything else."""
_LONGEST = 8192
"""No comment of the proxy is longer, so nothing longer is parsed."""


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
    template: str = ""
    """The template that the job is made from."""

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return PREFIX + ";".join(f"{name}={quote(value, safe=_UNQUOTED)}" for name, value in values if value)

    @classmethod
    def parse(cls, text: str) -> "Comment":
        """Parse a comment. A comment that the proxy did not write gives empty values; unknown names are skipped.

        A value that the proxy cannot have written is empty too.
        """
        if not text.startswith(PREFIX) or len(text) > _LONGEST:
            return cls()
        pairs = (pair.partition("=") for pair in text.removeprefix(PREFIX).split(";"))
        values = {name: unquote(value) for name, _, value in pairs if name in _FORMS}
        return cls(**{name: value for name, value in values.items() if _FORMS[name].fullmatch(value)})
