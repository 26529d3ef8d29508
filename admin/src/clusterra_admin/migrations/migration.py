"""What a migration is: which records it looks at, and how it changes one."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from clusterra_runtime.store.item import Attributes, Item, Key
from clusterra_runtime.store.store import Store, Table


class UnreadableRecord(ValueError):
    """A record has neither the old nor the new form. The text must not contain the record's content."""


@dataclass(frozen=True)
class Migration:
    """One change of a table's records.

    It only does what the previous release can read ("expand"): the release after it may stop reading the old form
    ("contract"), and then states this number as the level that it needs.
    """

    table: Table
    number: int
    """Counts the migrations of the table, from 1."""
    title: str
    readable_from: int
    """The last migration that a release must know to read the changed records; below `number`, because of the rule
    above."""
    keys: Callable[[Store], AsyncIterator[Key]]
    """The keys of all records that may have the old form."""
    change: Callable[[Item], Attributes | None]
    """The attributes to write into a record; None for one that has the new form. Raises UnreadableRecord."""

    def __post_init__(self) -> None:
        if not 0 <= self.readable_from < self.number:
            raise ValueError(
                f"migration {self.number} of {self.table.name} must leave what the release before it can read"
            )

    @property
    def name(self) -> str:
        """Its table and number."""
        return f"{self.table.name} {self.number}"
