"""What a restore has done: counts, and each item or message that could not be restored."""

from typing import Literal

from pydantic import BaseModel, Field

MAX_NAMED = 100


class PartOutcome(BaseModel):
    """One table or stream."""

    name: str
    restored: int = 0
    expired: int = 0
    """What would have expired by now, and was left out."""
    repeated: int = 0
    """What was there already, of an interrupted restore or with the same message id."""
    bad: int = 0
    """What could not be restored."""
    problems: list[str] = Field(default_factory=list)
    """The first of these, by line."""

    def reject(self, line: int, reason: str) -> None:
        """Count an item or message that could not be restored."""
        self.bad += 1
        if len(self.problems) < MAX_NAMED:
            self.problems.append(f"line {line}: {reason}")


class Outcome(BaseModel):
    """The whole restore: the document that `--json` prints."""

    schema_name: Literal["clusterra.restore.v1"] = "clusterra.restore.v1"
    backup: str
    """The id in the manifest."""
    resumed: bool
    tables: list[PartOutcome] = Field(default_factory=list)
    streams: list[PartOutcome] = Field(default_factory=list)
    clusters: int = 0
    """Bindings that were written to the registry."""
    rebuilt: dict[str, str] = Field(default_factory=dict)
    """Stream -> who writes it anew, for those that are not restored."""

    @property
    def bad(self) -> int:
        """All items and messages that could not be restored."""
        return sum(part.bad for part in (*self.tables, *self.streams))
