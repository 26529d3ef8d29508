"""The store: a small port over tables of versioned items, with conditions, transactions and expiry.

The port offers what DynamoDB guarantees, and its adapters behave identically for a caller. An item whose `expires_at`
has passed is absent to every operation, although a table may hold it for days. Reads by key and by partition see every
acknowledged write; only reads of an index may lag behind.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, Self

from boto3.dynamodb.conditions import And

from clusterra_runtime.store.condition import Absent, Condition, VersionIs, describe, operands
from clusterra_runtime.store.item import SYSTEM_ATTRIBUTES, Attributes, InvalidItem, Item, Key, Value
from clusterra_runtime.store.page import Page, SortRange

MAX_TRANSACTION_WRITES = 99
"""DynamoDB allows a hundred; one of them is the transaction's token."""
MAX_BATCH_WRITES = 25
"""DynamoDB's limit of a batch, in which no item may occur twice."""
TOKEN_SECONDS = 24 * 3600
"""How long a repeated transaction is recognised as done."""


@dataclass(frozen=True, slots=True)
class Index:
    """Finds items by one string attribute, ordered by another. It holds only items that have both attributes."""

    name: str
    partition: str
    sort: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table, owned and written by one service. Its name has 3 to 200 letters, digits, `-`, `_` or dots."""

    name: str
    indexes: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Put:
    """Write a whole item. There is no unconditional put: the condition says what is replaced.

    The condition is `Absent()` or `VersionIs(v)`, or one of them `&` others; the item becomes version 1 or `v + 1`.
    """

    table: Table
    key: Key
    attributes: Attributes
    condition: Condition
    expires_at: int | None = None

    @property
    def version(self) -> int:
        """The version that this write makes. Raises InvalidItem when the condition does not determine it."""
        return _replaced_version(self.condition) + 1


@dataclass(frozen=True, slots=True)
class Update:
    """Change some attributes, keep the others and increment the version. Creates an absent item unless forbidden.

    `add` adds to numbers atomically (a missing number counts as 0), `append` adds to the end of lists (a missing list
    counts as empty). No attribute may be named twice. `expires_at` None keeps the expiry. An `add` without a condition
    on the version may be applied twice when a connection breaks and the request is repeated; inside a transaction it
    is applied once.
    """

    table: Table
    key: Key
    set: Mapping[str, Value] = field(default_factory=dict)
    add: Mapping[str, int | float] = field(default_factory=dict)
    append: Mapping[str, Sequence[Value]] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    condition: Condition | None = None
    expires_at: int | None = None
    keep_version: bool = False
    """For bookkeeping that readers of the item must not notice."""

    def __post_init__(self) -> None:
        names = [*self.set, *self.add, *self.append, *self.remove]
        if len(set(names)) != len(names):
            raise InvalidItem("an update names an attribute twice: use only one of set, add, append and remove")
        if taken := SYSTEM_ATTRIBUTES.intersection(names):
            raise InvalidItem(f"{sorted(taken)} belong to the store: choose other names")


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove an item. An absent item is not an error, unless the condition requires the item."""

    table: Table
    key: Key
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but let the transaction happen only under this condition."""

    table: Table
    key: Key
    condition: Condition


type Write = Put | Update | Delete | Check


class StoreError(Exception):
    """An operation of the store failed."""


class StoreUnavailable(StoreError):
    """The store did not answer or is too busy. Repeat the operation later; read first, as a write may have happened."""


class TableMissing(StoreError):
    """The table does not exist. `clusterra-admin tables apply` creates all tables of an installation."""


class ItemTooLarge(StoreError):
    """An item would exceed 400 KiB. Split it or keep the large part elsewhere."""


class TokenReused(StoreError):
    """A transaction's token was used before for other keys. Use one token per intended change."""


class ConditionFailed(StoreError):
    """A write's condition did not hold, so nothing was written. `current` is the live item, None if it is absent."""

    def __init__(self, write: Write, current: Item | None) -> None:
        self.write = write
        self.current = current
        found = "it is absent" if current is None else f"it is at version {current.version}"
        condition = "the item has not expired" if write.condition is None else describe(write.condition)
        super().__init__(
            f"{write.table.name} {write.key.pk} {write.key.sk}: not written, because the condition "
            f'"{condition}" does not hold: {found}; read the item and decide again'
        )


class TransactionCancelled(StoreError):
    """None of a transaction's writes happened. `reasons` has one entry per write: None if its condition held."""

    def __init__(self, reasons: tuple[ConditionFailed | None, ...]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(str(reason) for reason in reasons if reason is not None))


class Store(Protocol):
    """The operations on a service's tables. All may raise StoreUnavailable, and InvalidItem for misuse."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def create_tables(self, *tables: Table) -> None:
        """Create what is missing of the tables and their indexes, and wait until they can be used.

        Services never call it: `clusterra-admin tables apply` does. Raises StoreError for a table with other keys.
        """
        ...

    async def missing_tables(self, *tables: Table) -> tuple[str, ...]:
        """Returns the full names of the tables that do not exist, lack an index, or cannot be used yet."""
        ...

    async def get(self, table: Table, key: Key) -> Item | None:
        """Returns the live item under a key, None if there is none."""
        ...

    async def write(self, write: Put | Update) -> Item:
        """Write one item and return its new state. Raises ConditionFailed, ItemTooLarge."""
        ...

    async def delete(self, delete: Delete) -> None:
        """Remove one item. Raises ConditionFailed."""
        ...

    async def put_all(self, puts: Sequence[Put]) -> None:
        """Write up to 25 items, in one request and without their conditions. Raises ItemTooLarge.

        It is for items that are always the same under the same key, so that writing one again changes nothing. An error
        may leave some of them written: repeat all.
        """
        ...

    async def query(
        self,
        table: Table,
        pk: str,
        *,
        sort: SortRange | None = None,
        descending: bool = False,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> Page:
        """Returns the live items of a partition in the order of `sk`: all, or at most `limit` and a cursor.

        A cursor is opaque and safe to hand out: it can only continue a query of the same partition and range.
        Raises InvalidCursor.
        """
        ...

    async def scan(self, table: Table, *, limit: int, cursor: str | None = None) -> Page:
        """Returns some `limit` live items of the whole table, in no order, and a cursor; None at the end.

        It reads all there is, so it is for rare work such as a deletion. A page may be empty before the end. Items that
        are written meanwhile may be missing. Raises InvalidCursor.
        """
        ...

    async def query_index(
        self, table: Table, index: Index, partition: str, *, sort: SortRange | None = None, limit: int = 1000
    ) -> list[Key]:
        """Returns the keys of items in an index, in its order.

        An index may lag behind and contain expired items, so read each item by its key before using it.
        """
        ...

    async def transact(self, writes: Sequence[Write], *, token: str) -> None:
        """Apply all of up to 99 writes to different items, or none.

        `token` names the intended change, such as the id of a command. Within 24 h, a repetition with the same token
        succeeds and writes nothing. The token is kept in the table of the first write. Raises TransactionCancelled,
        TokenReused, ItemTooLarge.
        """
        ...


def check_batch(puts: Sequence[Put]) -> None:
    """Raises InvalidItem for an impossible batch."""
    targets = {(put.table.name, put.key) for put in puts}
    if not 1 <= len(puts) <= MAX_BATCH_WRITES or len(targets) != len(puts):
        raise InvalidItem(f"a batch must have 1 to {MAX_BATCH_WRITES} writes, each of a different item")


def token_record(writes: Sequence[Write], token: str, now: float) -> Put:
    """Makes the item that marks a transaction as done. Raises InvalidItem for an impossible transaction."""
    targets = [(write.table.name, write.key.pk, write.key.sk) for write in writes]
    if not 1 <= len(targets) <= MAX_TRANSACTION_WRITES or len(set(targets)) != len(targets):
        raise InvalidItem(f"a transaction must have 1 to {MAX_TRANSACTION_WRITES} writes, each to a different item")
    digest = hashlib.sha256(repr(targets).encode()).hexdigest()
    return Put(
        writes[0].table,
        token_key(token),
        {"targets": digest},
        Absent(),
        expires_at=int(now) + TOKEN_SECONDS,
    )


def token_key(token: str) -> Key:
    """The key of the item that marks a transaction as done, in the table of its first write."""
    return Key(f"transaction#{token}", "token")


def accept_repetition(record: Put, reasons: Sequence[ConditionFailed | None]) -> None:
    """Return if a cancelled transaction was done before; the last reason is that of its token record.

    Raises TokenReused, TransactionCancelled.
    """
    *failed, repeated = reasons
    if repeated is None:
        raise TransactionCancelled(tuple(failed))
    if repeated.current is None or repeated.current.attributes != record.attributes:
        raise TokenReused("this transaction's token was used for other items: use one token per intended change")


def _replaced_version(condition: Condition) -> int:
    for part in _conjuncts(condition):
        match part:
            case Absent():
                return 0
            case VersionIs():
                return part.version
    raise InvalidItem("a put must say what it replaces: use Absent() or VersionIs(v), joined to others with &")


def _conjuncts(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, And):
        for each in operands(condition):
            yield from _conjuncts(each)
    else:
        yield condition
