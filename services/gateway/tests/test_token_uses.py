"""When tokens were last used: told to the hour, and written behind the requests."""

from datetime import UTC, datetime, timedelta
from typing import override

import aiohttp
import pytest
from clusterra_contracts.identity import now
from clusterra_gateway.accounts.keyspace import ACCOUNTS, api_token_key
from clusterra_gateway.accounts.records import ApiToken, Member
from clusterra_gateway.identity.access import token_uses
from clusterra_gateway.identity.access.token_uses import TokenUses
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_lab.machine.process import until
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Delete, Put, StoreUnavailable, Update
from gateway_world import World
from people_world import make_token, me, status_with

AT = datetime(2026, 11, 24, 12, 34, 56, tzinfo=UTC)
HOUR = datetime(2026, 11, 24, 12, tzinfo=UTC)
ADA = Member(issuer="https://i", subject="ada", tenant="acme", user="ada", uid=20001, email="a@b.c", joined_at=AT)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_uses, "INTERVAL_SECONDS", 0.05)


class Counting(MemoryStore):
    """Counts updates, and fails where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.updates, self.fails = 0, False

    @override
    async def write(self, write: Put | Update) -> Item:
        if isinstance(write, Update):
            self.updates += 1
            if self.fails:
                raise StoreUnavailable("it does not answer")
        return await super().write(write)


@pytest.fixture
async def store() -> Counting:
    made = Counting()
    await made.create_tables(ACCOUNTS)
    return made


async def stored_token(store: MemoryStore) -> tuple[str, ApiToken]:
    made = FreshToken.made(ADA.id, "ci", seconds=3600, scopes=None)
    await store.write(Put(ACCOUNTS, api_token_key(ADA.id, made.id), made.record.attributes(), Absent()))
    return made.id, made.record


async def read(store: MemoryStore, token_id: str) -> Item:
    item = await store.get(ACCOUNTS, api_token_key(ADA.id, token_id))
    assert item is not None
    return item


async def listed(browser: aiohttp.ClientSession, path: str) -> dict[str, str | None]:
    async with browser.get(path) as answer:
        assert answer.status == 200, await answer.text()
        return {each["id"]: each["last_used_at"] for each in (await answer.json())["tokens"]}


async def test_lists_tell_the_hour_in_which_a_token_was_last_used(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    used, unused = await make_token(ada, name="used"), await make_token(ada, name="unused")
    before = now().replace(minute=0, second=0, microsecond=0)
    async with aiohttp.ClientSession(world.url) as program:
        assert await status_with(program, used["token"]) == 200

    async def is_told() -> bool:
        return (await listed(ada, "/v1/users/me/tokens"))[used["id"]] is not None

    await until(is_told, seconds=90, what="the use to be noted")
    own = await listed(ada, "/v1/users/me/tokens")
    at = datetime.fromisoformat(own[used["id"]] or "")
    assert before <= at <= now()
    assert (at.minute, at.second, at.microsecond) == (0, 0, 0)
    assert own[unused["id"]] is None
    assert used["last_used_at"] is None
    for path in ("/v1/tokens", f"/v1/members/{(await me(ada))['id']}/tokens"):
        assert (await listed(boss, path))[used["id"]] == own[used["id"]]


async def test_a_use_is_written_once_an_hour_by_all_replicas(store: Counting) -> None:
    token_id, record = await stored_token(store)
    replicas = [TokenUses(store), TokenUses(store)]

    for minutes in (0, 5, 10):
        for uses in replicas:
            current = ApiToken.of(await read(store, token_id)) if minutes else record
            uses.note(ADA, token_id, current, AT + timedelta(minutes=minutes))
            await uses.sweeper().once()
    item = await read(store, token_id)

    assert ApiToken.of(item).last_used_at == HOUR
    assert store.updates == 2, "each replica has tried once"
    assert item.version == 1, "a change of the token at the same time is not disturbed"
    replicas[0].note(ADA, token_id, ApiToken.of(item), AT + timedelta(hours=1))
    await replicas[0].sweeper().once()
    # A late write of another replica does not take it back.
    replicas[1].note(ADA, token_id, record, AT)
    await replicas[1].sweeper().once()
    assert ApiToken.of(await read(store, token_id)).last_used_at == HOUR + timedelta(hours=1)


async def test_a_write_that_fails_is_given_up(store: Counting) -> None:
    token_id, record = await stored_token(store)
    uses, store.fails = TokenUses(store), True

    uses.note(ADA, token_id, record, AT)
    await uses.sweeper().once()
    await uses.sweeper().once()
    tried, store.fails = store.updates, False
    uses.note(ADA, token_id, record, AT)
    await uses.sweeper().once()

    assert tried == 1
    assert ApiToken.of(await read(store, token_id)).last_used_at == HOUR


async def test_a_revoked_token_does_not_come_back(store: Counting) -> None:
    token_id, record = await stored_token(store)
    uses = TokenUses(store)

    uses.note(ADA, token_id, record, AT)
    await store.delete(Delete(ACCOUNTS, api_token_key(ADA.id, token_id)))
    await uses.sweeper().once()

    assert await store.get(ACCOUNTS, api_token_key(ADA.id, token_id)) is None


async def test_no_more_uses_wait_than_are_kept(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_uses, "MOST_WAITING", 1)
    tokens = [await stored_token(store) for _ in range(3)]
    uses = TokenUses(store)

    for token_id, record in tokens:
        uses.note(ADA, token_id, record, AT)
    await uses.sweeper().once()

    assert store.updates == 1


async def test_an_unused_token_is_stored_as_earlier_releases_store_it(store: Counting) -> None:
    token_id, _ = await stored_token(store)

    assert "last_used_at" not in (await read(store, token_id)).attributes
