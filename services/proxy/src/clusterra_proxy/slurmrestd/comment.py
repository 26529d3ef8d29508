"""Our note in a job's comment, which accounting keeps: `clusterra:user=alice;uid=5001;key=...`.

A user can write any comment by plain sbatch, so it proves nothing: whose job it is only Slurm's uid tells.
"""

from dataclasses import dataclass, fields
from urllib.parse import quote, unquote

PREFIX = "clusterra:"
_UNQUOTED = "@+/:,"


@dataclass(frozen=True)
class Comment:
    """What we note with a job. Empty values are not written."""

    user: str = ""
    """The owner's name, since a job record holds only his uid."""
    uid: str = ""
    user_email: str = ""
    key: str = ""
    """The idempotency key of the submit."""

    def __str__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return PREFIX + ";".join(f"{name}={quote(value, safe=_UNQUOTED)}" for name, value in values if value)

    @classmethod
    def parse(cls, text: str) -> "Comment":
        """Read a comment. One that is not ours is empty; keys we do not know are passed over."""
        if not text.startswith(PREFIX):
            return cls()
        pairs = (pair.partition("=") for pair in text.removeprefix(PREFIX).split(";"))
        known = {field.name for field in fields(cls)}
        return cls(**{name: unquote(value) for name, _, value in pairs if name in known})
