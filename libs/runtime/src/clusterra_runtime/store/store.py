"""The store: a small port over tables of versioned items, with conditions, quotas, transactions and expiry.

It is shaped by what DynamoDB promises, and adapters differ in nothing that a caller can see. An item whose
`expires_at` has passed is absent to every operation, although a table may hold it for days. Reads by key and by
partition see every write that was acknowledged before; only reads of an index may lag behind.
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
"""DynamoDB takes a hundred, of which the transaction's token is one."""
TOKEN_SECONDS = 24 * 3600
"""How long a transaction that is sent again is known to be done."""


@dataclass(frozen=True, slots=True)
class Index:
    """Finds the items that have both of these text attributes: by the first, ordered by the second."""

    name: str
    partition: str
    sort: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table, owned and written by one service. The name has 3 to 200 letters, digits, `-`, `_` or dots."""

    name: str
    indexes: tuple[Index, ...] = ()


@dataclass(frozen=True, slots=True)
class Put:
    """Write an item whole. There is no blind put: the condition says what is replaced.

    It is `Absent()` or `VersionIs(v)`, or one of them `&` others; the item becomes version 1 or `v + 1`.
    """

    table: Table
    key: Key
    attributes: Attributes
    condition: Condition
    expires_at: int | None = None

    @property
    def version(self) -> int:
        """The version that this write makes. Raises InvalidItem when the condition does not tell."""
        return _replaced_version(self.condition) + 1


@dataclass(frozen=True, slots=True)
class Update:
    """Change some attributes, leave the others, count the version up. An absent item is made, unless forbidden.

    `add` adds to numbers atomically (a missing one counts as 0), `append` adds to the end of lists (a missing one is
    empty). No attribute may be named twice. `expires_at` None leaves the expiry as it is.
    An `add` that is not conditioned on the version may be applied twice when a connection breaks and the request is
    repeated; inside of a transaction it never is.
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
    """For bookkeeping that no reader of the item shall notice."""

    def __post_init__(self) -> None:
        names = [*self.set, *self.add, *self.append, *self.remove]
        if len(set(names)) != len(names):
            raise InvalidItem("an update names an attribute twice: choose one of set, add, append and remove")
        if taken := SYSTEM_ATTRIBUTES.intersection(names):
            raise InvalidItem(f"{sorted(taken)} belong to the store: choose other names")


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove an item; an absent one is no error, unless the condition says so."""

    table: Table
    key: Key
    condition: Condition | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """Write nothing, but let a transaction happen only under this condition."""

    table: Table
    key: Key
    condition: Condition


type Write = Put | Update | Delete | Check


class StoreError(Exception):
    """The store did not do what it was asked to."""


class StoreUnavailable(StoreError):
    """No answer, or too busy. Repeat the operation later; a write may have happened already, so read before."""


class TableMissing(StoreError):
    """The table is not there. Call `create_tables` when the service starts."""


class ItemTooLarge(StoreError):
    """An item would exceed 400 KiB. Split it or keep the large part elsewhere."""


class TokenReused(StoreError):
    """A transaction's token was used before for other keys. Make one token per intended change."""


class ConditionFailed(StoreError):
    """A write's condition did not hold, so nothing was written. `current` is the live item, None when absent."""

    def __init__(self, write: Write, current: Item | None) -> None:
        self.write = write
        self.current = current
        found = "it is absent" if current is None else f"it is at version {current.version}"
        condition = "the item has not expired" if write.condition is None else describe(write.condition)
        super().__init__(
            f"{write.table.name} {write.key.pk} {write.key.sk}: not written, as it needs that {condition}, "
            f"but {found}; decide again from what is there now"
        )


class TransactionCancelled(StoreError):
    """None of a transaction's writes happened. `reasons` has one entry per write, None for those that could."""

    def __init__(self, reasons: tuple[ConditionFailed | None, ...]) -> None:
        self.reasons = reasons
        super().__init__("; ".join(str(reason) for reason in reasons if reason is not None))


class Store(Protocol):
    """What a service may do with its tables. Every operation may raise StoreUnavailable, and InvalidItem for misuse."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *error: object) -> None: ...

    async def create_tables(self, *tables: Table) -> None:
        """Make the tables that are not there, and wait until they can be used. Existing ones are left as they are."""
        ...

    async def get(self, table: Table, key: Key) -> Item | None:
        """The live item under a key."""
        ...

    async def write(self, write: Put | Update) -> Item:
        """Write one item and return it as it is now. Raises ConditionFailed, ItemTooLarge."""
        ...

    async def delete(self, delete: Delete) -> None:
        """Remove one item. Raises ConditionFailed."""
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
        """The live items of a partition in order of `sk`: all of them, or at most `limit` and a cursor to go on.

        A cursor is opaque and safe to hand out: it can only continue a query of the same partition and range.
        Raises InvalidCursor.
        """
        ...

    async def query_index(
        self, table: Table, index: Index, partition: str, *, sort: SortRange | None = None, limit: int = 1000
    ) -> list[Key]:
        """The keys of items in an index, in its order. It may lag behind and tell expired items: get what you use."""
        ...

    async def transact(self, writes: Sequence[Write], *, token: str) -> None:
        """Do all of up to 99 writes, to different items, or none.

        `token` names the intended change, such as a command's id: within 24 h the same token makes a repetition
        harmless, it succeeds and writes nothing. It is kept in the first write's table.
        Raises TransactionCancelled, TokenReused, ItemTooLarge.
        """
        ...


def token_record(writes: Sequence[Write], token: str, now: float) -> Put:
    """The item by which a transaction is known to be done. Raises InvalidItem for what no transaction may be."""
    targets = [(write.table.name, write.key.pk, write.key.sk) for write in writes]
    if not 1 <= len(targets) <= MAX_TRANSACTION_WRITES or len(set(targets)) != len(targets):
        raise InvalidItem(f"a transaction has 1 to {MAX_TRANSACTION_WRITES} writes, each to an item of its own")
    digest = hashlib.sha256(repr(targets).encode()).hexdigest()
    return Put(
        writes[0].table,
        Key(f"transaction#{token}", "token"),
        {"targets": digest},
        Absent(),
        expires_at=int(now) + TOKEN_SECONDS,
    )


def settle(record: Put, reasons: Sequence[ConditionFailed | None]) -> None:
    """Judge a cancelled transaction whose last reason is its token's: return when it had been done before.

    Raises TokenReused, TransactionCancelled.
    """
    *failed, repeated = reasons
    if repeated is None:
        raise TransactionCancelled(tuple(failed))
    if repeated.current is None or repeated.current.attributes != record.attributes:
        raise TokenReused("this transaction's token was used for other items: make one token per intended change")


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
