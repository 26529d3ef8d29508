"""A directory's change reads the people whom it concerns, and finds them whichever release wrote their records."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import Any, cast, override

import pytest
from clusterra_contracts.identity import now
from clusterra_gateway.accounts import addresses
from clusterra_gateway.accounts.addresses import people_with, reservation_of
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, USER_NAMES, domain_key, member_key, tenant_key, user_name_key
from clusterra_gateway.accounts.records import Domain, Member, Tenant, UserNameReservation
from clusterra_gateway.directory.room import DirectoryParts
from clusterra_gateway.directory.scim.changes import Changes
from clusterra_gateway.directory.scim.groups import Groups
from clusterra_gateway.directory.scim.provisioned import ProvisionedDirectory
from clusterra_gateway.directory.scim.resources import User
from clusterra_gateway.directory.scim.users import Users
from clusterra_gateway.identity.issuers.oidc import Identity
from clusterra_gateway.identity.sign_in.enrolment import Enrolment
from clusterra_gateway.identity.tokens.revocations import Revocations
from clusterra_gateway.people.membership import Membership
from clusterra_gateway.tables import TABLES
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item, Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.page import Page
from clusterra_runtime.store.store import Delete, Put, Table, Update
from clusterra_runtime.store.table_use import tables_of

PEOPLE = 500
ISSUER = "https://i"
BOSS = Member(issuer=ISSUER, subject="boss", tenant="acme", user="boss", uid=20001, email="b@a.b", joined_at=now())


class CountingStore(MemoryStore):
    """Counts the reads of each member, and the queries."""

    def __init__(self) -> None:
        super().__init__()
        self.members = Counter[str]()
        self.queries = 0

    @override
    async def get(self, table: Table, key: Key) -> Item | None:
        self.members[key.pk] += key.sk == "member"
        return await super().get(table, key)

    @override
    async def query(self, table: Table, pk: str, **how: Any) -> Page:
        self.queries += 1
        return await super().query(table, pk, **how)

    def read(self) -> set[str]:
        """The members that were read since the last call."""
        found = {pk for pk, count in self.members.items() if count}
        self.members.clear()
        self.queries = 0
        return found


class Nobody:
    """In place of the gateways that are told of a change."""

    async def member_changed(self, tenant: str, user: str) -> None:
        assert (tenant, bool(user)) == ("acme", True)


async def unsent(_subject: str, _body: bytes, _headers: Mapping[str, str]) -> None:
    raise AssertionError("a tenant without clusters has no live events")


@pytest.fixture
async def store() -> AsyncIterator[CountingStore]:
    async with CountingStore() as store:
        await store.create_tables(*tables_of(TABLES))
        await store.write(Put(ACCOUNTS, tenant_key("acme"), Tenant(name="Acme").attributes(), Absent()))
        await store.write(Put(ACCOUNTS, domain_key("acme.example"), Domain(tenant="acme").attributes(), Absent()))
        yield store


@pytest.fixture
def directory(store: CountingStore) -> Directory:
    return Directory(store, Outbox(store, unsent))


@pytest.fixture
def users(directory: Directory) -> Users:
    parts, revocations = DirectoryParts.of(directory.store), cast(Revocations, Nobody())
    membership = Membership(directory, parts.provisioned, parts.unix_users, Registry(), revocations)
    changes = Changes(directory, Registry())
    return Users(directory, membership, changes, Groups(parts.provisioned, changes))


def person(number: int, **more: Any) -> Member:
    """One of many people."""
    told = {"subject": f"p{number}", "user": f"p{number}", "uid": 21000 + number, "email": f"P{number}@acme.example"}
    return Member.model_validate({"issuer": ISSUER, "tenant": "acme", "joined_at": now()} | told | more)


async def populate(store: MemoryStore, *people: Member, before: bool = False) -> None:
    """Write these people, as this release does or as the one `before`."""
    for each in people:
        reservation = dict(reservation_of(each).attributes())
        if before:
            del reservation["email"]
        await store.write(Put(ACCOUNTS, member_key(each.id), each.attributes(), Absent()))
        await store.write(Put(ACCOUNTS, user_name_key("acme", each.user), reservation, Absent()))


async def written(store: MemoryStore) -> list[str | None]:
    """The addresses in the reservations of names."""
    page = await store.query(ACCOUNTS, tenant_key("acme").pk, sort=USER_NAMES)
    return [UserNameReservation.of(item).email for item in page.items]


async def deactivated(users: Users, *addresses: str) -> None:
    """The directory makes users of these addresses, and then deactivates each."""
    for address in addresses:
        made = await users.create(BOSS, User(user_name=address, active=True))
        await users.change(BOSS, made.id, lambda user: user.model_copy(update={"active": False}), None)


async def test_a_deactivation_reads_whom_it_concerns(store: CountingStore, directory: Directory, users: Users) -> None:
    people = [person(number) for number in range(PEOPLE)]
    await populate(store, *people)
    store.read()

    await deactivated(users, "p7@acme.example")

    queries, read = store.queries, store.read()
    assert read == {member_key(people[7].id).pk}
    assert queries <= 3
    assert [each.user for each in await directory.members(each.id for each in people) if each.disabled] == ["p7"]


async def test_people_of_the_release_before_are_found_and_their_reservations_completed(
    store: CountingStore, directory: Directory, users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "MOST_COMPLETED", 15)
    people = [person(number) for number in range(20)]
    await populate(store, *people, before=True)
    store.read()

    await deactivated(users, "p19@acme.example")
    first = store.read()
    left = (await written(store)).count(None)
    await deactivated(users, "p18@acme.example")
    store.read()
    await deactivated(users, "p3@acme.example")

    assert (len(first), left) == (20, 5)
    assert store.read() == {member_key(people[3].id).pk}
    assert None not in await written(store)
    disabled = [each.user for each in await directory.members(each.id for each in people) if each.disabled]
    assert disabled == ["p3", "p18", "p19"]


async def test_a_reservation_that_changes_meanwhile_is_not_completed(
    store: CountingStore, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = person(1)
    await populate(store, ada, before=True)
    members = directory.members

    async def members_then_a_sign_in(ids: Any) -> tuple[Member, ...]:
        """The members as they are read, after which the person gets another address."""
        found = await members(ids)
        if None in await written(store):
            await enrolment_of(directory).member(Identity(ISSUER, "p1", "new@acme.example", True, "Ada"))
        return found

    monkeypatch.setattr(directory, "members", members_then_a_sign_in)
    await people_with(directory, "acme", {"p1@acme.example"})

    assert await written(store) == ["new@acme.example"]


async def test_who_has_another_address_since_a_sign_in_is_found_by_it(
    store: CountingStore, directory: Directory, users: Users
) -> None:
    enrolment = enrolment_of(directory)
    joined = await enrolment.member(Identity(ISSUER, "ada", "ada@acme.example", True, "Ada"))
    await enrolment.member(Identity(ISSUER, "ada", "King@acme.example", True, "Ada"))

    await deactivated(users, "king@acme.example")

    member = await directory.member(joined.id)
    assert member is not None
    assert (member.email, member.disabled) == ("King@acme.example", True)
    assert await written(store) == ["king@acme.example"]


async def test_an_address_that_an_earlier_release_changed_alone_is_written_at_the_next_sign_in(
    store: CountingStore, directory: Directory, users: Users
) -> None:
    enrolment = enrolment_of(directory)
    joined = await enrolment.member(Identity(ISSUER, "ada", "ada@acme.example", True, "Ada"))
    await store.write(Update(ACCOUNTS, member_key(joined.id), set={"email": "king@acme.example"}))

    await enrolment.member(Identity(ISSUER, "ada", "king@acme.example", True, "Ada"))

    assert await written(store) == ["king@acme.example"]
    await deactivated(users, "king@acme.example")
    member = await directory.member(joined.id)
    assert member is not None
    assert member.disabled


async def test_who_stays_after_the_end_of_their_tenant_gets_no_name_there_again(
    store: CountingStore, directory: Directory
) -> None:
    enrolment = enrolment_of(directory)
    joined = await enrolment.member(Identity(ISSUER, "ada", "ada@acme.example", True, "Ada"))
    await store.delete(Delete(ACCOUNTS, user_name_key("acme", "ada")))
    await store.write(Update(ACCOUNTS, member_key(joined.id), set={"disabled": True}))

    await enrolment.member(Identity(ISSUER, "ada", "king@acme.example", True, "Ada"))

    member = await directory.member(joined.id)
    assert member is not None
    assert member.email == "king@acme.example"
    assert await written(store) == []


async def test_nobody_else_is_found(store: CountingStore, directory: Directory) -> None:
    people = [
        person(1),
        person(2, issuer="service-account", kind="service_account", email="p1@acme.example"),
        person(3, email="someone@acme.example"),
    ]
    await populate(store, *people)
    stranger = person(4, tenant="rival", email="p1@acme.example")
    await store.write(Put(ACCOUNTS, member_key(stranger.id), stranger.attributes(), Absent()))

    found = await people_with(directory, "acme", {"p1@acme.example"}, [stranger.id, people[2].id, "nobody"])

    assert [each.user for each in found] == ["p1", "p3"]


def enrolment_of(directory: Directory) -> Enrolment:
    return Enrolment(directory, ProvisionedDirectory(directory.store), Registry(), default_issuer=ISSUER)
