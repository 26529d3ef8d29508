"""What two replicas make at the same moment, on an emulator of DynamoDB: tokens, accounts, invitations, users."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any, cast

import pytest
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.addresses import people_with
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, domain_key, member_key, tenant_key
from clusterra_gateway.accounts.records import Domain, Member, Tenant
from clusterra_gateway.directory.room import DirectoryParts
from clusterra_gateway.directory.scim.changes import Changes
from clusterra_gateway.directory.scim.groups import Groups
from clusterra_gateway.directory.scim.provisioned import ProvisionedDirectory
from clusterra_gateway.directory.scim.resources import User
from clusterra_gateway.directory.scim.users import Users
from clusterra_gateway.http.requests.errors import Conflict, Forbidden, TooManyRequests
from clusterra_gateway.identity.access.token_uses import TokenUses
from clusterra_gateway.identity.issuers.oidc import Identity
from clusterra_gateway.identity.sign_in.enrolment import Enrolment
from clusterra_gateway.identity.tokens.revocations import Revocations
from clusterra_gateway.identity.tokens.token_records import (
    MAX_TOKENS,
    AlreadyRedeemed,
    FreshToken,
    Rotation,
    TokenRecords,
)
from clusterra_gateway.people.invitations import Invitations, Inviter
from clusterra_gateway.people.membership import MemberChange, Membership
from clusterra_gateway.people.service_accounts import CreateServiceAccount, ServiceAccounts
from clusterra_gateway.program_sign_in.device_flows import MAX_ATTEMPTS, DeviceFlows, count_attempt
from clusterra_gateway.program_sign_in.oauth_routes import OAuthFailure
from clusterra_gateway.program_sign_in.program import ProgramRequest
from clusterra_gateway.tables import TABLES
from clusterra_lab.parts.aws import Aws
from clusterra_runtime.nats.registry import Registry
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import Put, Update
from clusterra_runtime.store.table_use import tables_of
from scim2_models import UniquenessException

BOSS = Member(issuer="https://i", subject="boss", tenant="acme", user="boss", uid=20001, email="b@a.b", joined_at=now())


class Nobody:
    """In place of the gateways that are told of a change: here the record alone decides."""

    async def member_changed(self, tenant: str, user: str) -> None:
        assert (tenant, bool(user)) == ("acme", True)

    async def token_revoked(self, tenant: str, token_id: str) -> None:
        assert (tenant, bool(token_id)) == ("acme", True)


NOBODY = cast(Revocations, Nobody())
GUEST = Identity("https://i", "guest", "guest@elsewhere.example", True, "Guest")


@pytest.fixture
async def replicas(emulator: Aws, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[Directory]]:
    """Two gateways' views of one record with the tenant `acme` and its admin."""

    async def publish(_subject: str, _body: bytes, _headers: Mapping[str, str]) -> None:
        raise AssertionError("a tenant without clusters has no live events")

    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    prefix = f"{uuid.uuid4()}-"
    async with DynamoDBStore(table_prefix=prefix) as one, DynamoDBStore(table_prefix=prefix) as other:
        await one.create_tables(*tables_of(TABLES))
        await one.write(Put(ACCOUNTS, tenant_key("acme"), Tenant(name="Acme").attributes(), Absent()))
        await one.write(Put(ACCOUNTS, member_key(BOSS.id), BOSS.attributes(), Absent()))
        await one.write(Put(ACCOUNTS, domain_key("acme.example"), Domain(tenant="acme").attributes(), Absent()))
        yield [Directory(store, Outbox(store, publish)) for store in (one, other)]


async def test_the_uses_of_a_token_are_noted_by_the_hour(replicas: list[Directory]) -> None:
    made = FreshToken.made(BOSS.id, "ci", seconds=3600, scopes=None)
    await TokenRecords(replicas[0], Registry(), NOBODY).add(BOSS, BOSS.id, made)
    hour = now().replace(minute=0, second=0, microsecond=0)

    for hours in (0, 1, 0):
        for directory in replicas:
            uses = TokenUses(directory.store)
            uses.note(BOSS, made.id, made.record, hour + timedelta(hours=hours, minutes=5))
            await uses.sweeper().once()

    ((_, record),) = await TokenRecords(replicas[0], Registry(), NOBODY).valid(BOSS.id)
    assert record.last_used_at == hour + timedelta(hours=1)


async def test_tokens_keep_their_limit(replicas: list[Directory]) -> None:
    records = [TokenRecords(directory, Registry(), NOBODY) for directory in replicas]

    async def add(number: int) -> bool:
        try:
            await records[number % 2].add(BOSS, BOSS.id, FreshToken.made(BOSS.id, "ci", seconds=3600, scopes=None))
        except Conflict:
            return False
        return True

    for number in range(MAX_TOKENS - 2):
        assert await add(number)
    added = await asyncio.gather(*map(add, range(6)))

    assert added.count(True) == 2
    valid = await records[0].valid(BOSS.id)
    assert len(valid) == MAX_TOKENS


async def test_what_two_replicas_redeem_gives_one_token(replicas: list[Directory]) -> None:
    records = [TokenRecords(directory, Registry(), NOBODY) for directory in replicas]
    flows = [DeviceFlows(directory.store) for directory in replicas]
    wanted = ProgramRequest(client_id="clusterra-cli")
    begun = await flows[0].begin(wanted)
    await flows[1].decide(await flows[1].waiting(begun.user_code), BOSS, approved=True)
    known = [await each.approved(begun.device_code) for each in flows]

    async def redeem(number: int) -> bool:
        made = FreshToken.made(BOSS.id, "ci", seconds=3600, scopes=wanted.scopes)
        try:
            await records[number % 2].redeem(BOSS, made, known[number % 2].redeemed(made))
        except AlreadyRedeemed:
            return False
        return True

    redeemed = await asyncio.gather(*map(redeem, range(6)))

    assert redeemed.count(True) == 1
    assert len(await records[0].valid(BOSS.id)) == 1
    with pytest.raises(OAuthFailure, match="redeemed"):
        await flows[1].approved(begun.device_code)


async def test_attempts_are_counted_for_all_replicas(replicas: list[Directory]) -> None:
    async def attempt(number: int) -> bool:
        try:
            await count_attempt(replicas[number % 2].store, BOSS.id)
        except TooManyRequests:
            return False
        return True

    admitted = await asyncio.gather(*map(attempt, range(MAX_ATTEMPTS + 10)))

    assert admitted.count(True) == MAX_ATTEMPTS


async def test_a_token_that_two_replicas_rotate_is_replaced_once(replicas: list[Directory]) -> None:
    records = [TokenRecords(directory, Registry(), NOBODY) for directory in replicas]
    old = FreshToken.made(BOSS.id, "ci", seconds=3600, scopes=("profile",))
    await records[0].add(BOSS, BOSS.id, old)

    rotated = await asyncio.gather(
        *(each.rotate(BOSS, BOSS.id, old.id, Rotation(7200, 60)) for each in records), return_exceptions=True
    )

    made = [each for each in rotated if isinstance(each, FreshToken)]
    valid = dict(await records[0].valid(BOSS.id))
    assert valid.keys() == {old.id, *(each.id for each in made)}
    assert valid[old.id].valid_until < old.record.valid_until
    assert all(isinstance(each, Conflict) for each in rotated if each not in made)


async def test_a_service_account_is_created_once_and_comes_back_with_its_uid(replicas: list[Directory]) -> None:
    accounts = [ServiceAccounts(directory, Registry(), NOBODY) for directory in replicas]
    records = TokenRecords(replicas[0], Registry(), NOBODY)
    wanted = CreateServiceAccount(name="ci")

    answers = await asyncio.gather(*(each.create(BOSS, wanted) for each in accounts), return_exceptions=True)
    (account,) = [each for each in answers if isinstance(each, Member)]
    await records.add(BOSS, account.id, FreshToken.made(account.id, "key", seconds=3600, scopes=None))
    await accounts[1].delete(BOSS, "ci")
    again = await accounts[0].create(BOSS, wanted)

    assert again.uid == account.uid
    assert await records.valid(account.id) == ()
    assert [each.user for each in await accounts[1].all("acme")] == ["ci"]


async def test_an_invitation_is_used_up_by_one_person(replicas: list[Directory]) -> None:
    _, _, token = await Invitations(replicas[0], Registry()).create(
        Inviter.of(BOSS), GUEST.email, "viewer", seconds=3600
    )
    invitation, _ = await _enrolment(replicas[1]).presented(token)
    people = [GUEST, Identity(GUEST.issuer, "another", GUEST.email, True, "Another")]

    answers = await asyncio.gather(
        *(_enrolment(directory).member(person, invitation) for directory, person in zip(replicas, people, strict=True)),
        return_exceptions=True,
    )

    (member,) = [each for each in answers if isinstance(each, Member)]
    assert (member.tenant, member.role) == ("acme", "viewer")
    assert [type(each) for each in answers if not isinstance(each, Member)] == [Forbidden]
    with pytest.raises(Forbidden):
        await _enrolment(replicas[0]).presented(token)


def users_of(directory: Directory) -> Users:
    changes = Changes(directory, Registry())
    groups = Groups(ProvisionedDirectory(directory.store), changes)
    membership = _membership(directory)
    return Users(directory, membership, changes, groups)


def inactive(user: User) -> User:
    return user.model_copy(update={"active": False})


async def test_two_replicas_provision_an_address_once(replicas: list[Directory]) -> None:
    users = [users_of(directory) for directory in replicas]
    ada = User(user_name="ada@acme.example", external_id="1", active=True)

    answers = await asyncio.gather(*(each.create(BOSS, ada) for each in users * 3), return_exceptions=True)

    assert [type(each) for each in answers if isinstance(each, BaseException)] == [UniquenessException] * 5
    provisioned = ProvisionedDirectory(replicas[0].store)
    assert len(await provisioned.ids("acme", "user")) == 1
    assert len((await provisioned.everything("acme"))[0]) == 1


@pytest.mark.parametrize("how", ["change", "delete", "rename"])
async def test_who_signs_in_while_they_are_deactivated_is_disabled_or_does_not_join(
    replicas: list[Directory], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    users = users_of(replicas[0])
    found = await users.create(BOSS, User(user_name="ada@acme.example", active=True))
    person = Identity("https://i", "ada", "ada@acme.example", True, "Ada")
    enrolment = _enrolment(replicas[1])
    joined = list[Member]()

    async def people_then_ada(*wanted: Any) -> tuple[Member, ...]:
        """The people as they are read, after which the person signs in for the first time."""
        found = await people_with(*wanted)
        if not joined:
            joined.append(await enrolment.member(person))
        return found

    monkeypatch.setattr("clusterra_gateway.directory.scim.users.people_with", people_then_ada)

    if how == "delete":
        await users.delete(BOSS, found.id, None)
    else:
        name = "king@acme.example" if how == "rename" else "ada@acme.example"
        wanted = User(user_name=name, active=how != "change")
        await users.change(BOSS, found.id, lambda _: wanted, None)
    if how == "rename":
        await users.change(BOSS, found.id, inactive, None)

    member = await replicas[0].member(joined[0].id)
    assert member is not None
    assert member.disabled


async def test_the_last_two_owners_are_not_both_disabled_by_a_directory(replicas: list[Directory]) -> None:
    store, users = replicas[0].store, [users_of(directory) for directory in replicas]
    ids = []
    for name in ("one", "two"):
        owner = await _enrolment(replicas[0]).member(Identity("https://i", name, f"{name}@acme.example", True, name))
        role = owner.with_role("owner", given_at=now())
        await store.write(Update(ACCOUNTS, member_key(owner.id), set=role.attributes()))
        ids.append((await users[0].create(BOSS, User(user_name=f"{name}@acme.example", active=True))).id)

    answers = await asyncio.gather(
        *(each.delete(BOSS, user_id, None) for each, user_id in zip(users, ids, strict=True)), return_exceptions=True
    )

    assert [type(each) for each in answers if each is not None] == [Conflict]
    members = [each async for each in _membership(replicas[0]).everybody("acme")]
    assert [each.disabled for each in members if each.role == "owner"].count(False) == 1
    change = MemberChange(disabled=True, by_directory=True)
    (left,) = [each for each in members if each.role == "owner" and not each.disabled]
    with pytest.raises(Conflict, match="the last owner"):
        await _membership(replicas[1]).change(BOSS, left.id, change)


def _enrolment(directory: Directory) -> Enrolment:
    return Enrolment(directory, ProvisionedDirectory(directory.store), Registry(), default_issuer="https://i")


def _membership(directory: Directory) -> Membership:
    unix_users = DirectoryParts.of(directory.store).unix_users
    return Membership(directory, ProvisionedDirectory(directory.store), unix_users, Registry(), NOBODY)
