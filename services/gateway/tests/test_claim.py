"""The claim of an idempotency key: its steps, and that of several writers exactly one succeeds."""

import asyncio
from dataclasses import replace

import pytest
from clusterra_contracts.identity import ClusterRef, SlurmUser, now
from clusterra_contracts.rpc.deadlines import SETTLED_SECONDS, SUBMIT
from clusterra_contracts.rpc.slurm import JobDescription, Submit, Submitted
from clusterra_gateway.accounts.keyspace import ACCOUNTS
from clusterra_gateway.http.requests.errors import QuotaExceeded
from clusterra_gateway.idempotency.key import KEEP_SECONDS, ScopedKey
from clusterra_gateway.idempotency.table import IDEMPOTENCY
from clusterra_gateway.money.quotas.records import Quota, QuotaScope, Reservation
from clusterra_gateway.money.quotas.reservations import PendingReservation, Reservations
from clusterra_gateway.submits.claim import ALONE_SECONDS, Claim
from clusterra_gateway.submits.keys import SubmitKeys
from clusterra_gateway.submits.submit_once import SubmitOnce
from clusterra_runtime.store.condition import Absent
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.memory_store import MemoryStore
from clusterra_runtime.store.store import Put
from hypothesis import given
from hypothesis import strategies as st

KEY = ScopedKey(ClusterRef(tenant="acme", cluster="main"), "ada", "key-00001")
BEGIN = 1_800_000_000.0
MESSAGE = Submit(
    user=SlurmUser(name="ada", uid=20001, gid=20001),
    email="ada@acme.example",
    script="#!/bin/sh\n",
    job=JobDescription(environment=("PATH=/bin",)),
    idempotency_key=KEY.key,
)
ANSWER = Submitted(job_id="42", accepted_at=now())
QUOTA = Quota(
    scope=QuotaScope(kind="user", name="ada"),
    limit_micro_usd=6,
    mode="block",
    buffer_percent=0,
    set_by="",
    set_at=now(),
)
PENDING = PendingReservation(
    Reservation(
        id="r",
        tenant="acme",
        cluster="main",
        month="2026-11",
        scopes=(QUOTA.scope,),
        micro_usd=7,
        user="ada",
        made_at=now(),
    ),
    (QUOTA,),
)


class Clock:
    """The store's clock."""

    def __init__(self) -> None:
        self.at = BEGIN

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def store(clock: Clock) -> MemoryStore:
    store = MemoryStore(clock=clock)
    await store.create_tables(IDEMPOTENCY)
    return store


@pytest.mark.parametrize(
    ("after", "action"),
    [(0, "wait"), (ALONE_SECONDS, "look"), (SETTLED_SECONDS - 0.1, "look"), (SETTLED_SECONDS, "again")],
)
def test_the_actions_on_an_unanswered_claim(after: float, action: str) -> None:
    claim = Claim.first("hash", "owner", BEGIN)

    assert claim.action("hash", BEGIN + after) == action
    assert claim.action("another", BEGIN + after) == "reused"


@given(
    steps=st.lists(st.tuples(st.sampled_from(("unconfirmed", "undone", "killed")), st.floats(0, 200)), max_size=12),
)
def test_nobody_submits_while_an_earlier_attempt_may_make_a_job(steps: list[tuple[str, float]]) -> None:
    at, claim = BEGIN, Claim.first("hash", "0", BEGIN)
    may_submit_until = at + SETTLED_SECONDS
    before = claim
    for number, (end, pause) in enumerate(steps):
        if end == "unconfirmed":
            claim = claim.unconfirmed()
        elif end == "undone" and number > 0:
            claim = claim.undone(before)
        at += pause
        if claim.action("hash", at) == "again":
            assert end == "undone" or at >= may_submit_until
            before, claim = claim, claim.again(str(number), at)
            may_submit_until = at + SETTLED_SECONDS
        assert 1 <= claim.retry_after_seconds(at) <= SETTLED_SECONDS
        assert not claim.in_flight(at) or at < claim.sent_at + SUBMIT.gateway


async def test_of_many_requests_one_claims_a_key(store: MemoryStore) -> None:
    keys = SubmitKeys(store)

    claims = await asyncio.gather(*(keys.claim(KEY, "hash", BEGIN) for _ in range(8)))

    assert sum(is_new for _, is_new in claims) == 1
    assert len({found.claim.owner for found, _ in claims}) == 1


async def test_of_many_requests_one_claims_a_settled_key_again(store: MemoryStore) -> None:
    keys = SubmitKeys(store)
    found, _ = await keys.claim(KEY, "hash", BEGIN)

    again = await asyncio.gather(*(keys.claim_again(KEY, found, BEGIN + SETTLED_SECONDS) for _ in range(8)))

    assert sum(mine is not None for mine in again) == 1


async def test_a_key_lives_for_a_day_after_its_last_attempt(store: MemoryStore, clock: Clock) -> None:
    keys = SubmitKeys(store)
    first, _ = await keys.claim(KEY, "hash", BEGIN)
    clock.at = BEGIN + 3600
    assert await keys.claim_again(KEY, first, clock.at) is not None
    await keys.complete(KEY, "hash", ANSWER)

    clock.at = BEGIN + 3600 + KEEP_SECONDS - 1
    found, is_new = await keys.claim(KEY, "hash", clock.at)
    assert (is_new, found.claim.answer) == (False, ANSWER)

    clock.at += 1
    assert (await keys.claim(KEY, "another", clock.at))[1]


async def test_the_first_answer_stays(store: MemoryStore) -> None:
    keys = SubmitKeys(store)
    await keys.claim(KEY, "hash", BEGIN)

    await keys.complete(KEY, "hash", ANSWER)
    await keys.complete(KEY, "hash", Submitted(job_id="43", accepted_at=now()))

    assert (await keys.claim(KEY, "hash", BEGIN))[0].claim.answer == ANSWER


async def test_an_item_of_an_earlier_release_is_looked_for_before_it_is_submitted(store: MemoryStore) -> None:
    await store.write(Put(IDEMPOTENCY, KEY.place("submit"), {"request": "hash"}, Absent(), int(BEGIN) + KEEP_SECONDS))
    keys = SubmitKeys(store)

    found, is_new = await keys.claim(KEY, "hash", BEGIN + 10)

    assert not is_new
    assert found.claim.claimed_at == BEGIN
    assert found.claim.action("hash", BEGIN + 10) == "look"
    assert found.claim.action("hash", BEGIN + SETTLED_SECONDS) == "again"


async def test_earlier_releases_find_the_attributes_of_a_submit_that_they_read(store: MemoryStore) -> None:
    keys = SubmitKeys(store)

    await keys.claim(KEY, "hash", BEGIN)
    await keys.complete(KEY, "hash", ANSWER)

    item = await store.get(IDEMPOTENCY, Key("acme.main#ada#key-00001", "submit"))
    assert item is not None
    assert item.attributes.keys() == {"request", "owner", "claimed_at", "sent_at", "settled_at", "ended", "answer"}
    assert (item.attributes["request"], item.expires_at) == ("hash", int(BEGIN) + KEEP_SECONDS)


async def test_a_reservation_that_is_refused_leaves_the_key_free(store: MemoryStore) -> None:
    await store.create_tables(ACCOUNTS)
    keys = SubmitKeys(store)

    with pytest.raises(QuotaExceeded):
        await keys.claim(KEY, "hash", BEGIN, PENDING)

    assert (await keys.claim(KEY, "another", BEGIN))[1]


async def test_of_many_requests_one_claims_a_key_and_reserves(store: MemoryStore) -> None:
    await store.create_tables(ACCOUNTS)
    keys, affordable = SubmitKeys(store), replace(PENDING, quotas=(QUOTA.model_copy(update={"limit_micro_usd": 7}),))

    claims = await asyncio.gather(*(keys.claim(KEY, "hash", BEGIN, affordable) for _ in range(8)))

    assert sum(is_new for _, is_new in claims) == 1
    assert await Reservations(store).used("acme", PENDING.reservation.month, QUOTA.scope) == 7


class Accepting:
    """A Slurm that accepts every job."""

    def __init__(self) -> None:
        self.accepted = 0

    async def submit(self, _ref: ClusterRef, _submit: Submit) -> Submitted:
        self.accepted += 1
        return Submitted(job_id=f"{self.accepted}", accepted_at=now())


def room_for(micro_usd: int, *, asks: int = 7) -> PendingReservation:
    """The pending reservation of a submit with the same key, made at this moment."""
    reservation = PENDING.reservation.model_copy(update={"micro_usd": asks, "made_at": now()})
    return PendingReservation(reservation, (QUOTA.model_copy(update={"limit_micro_usd": micro_usd}),))


async def test_a_reservation_that_was_not_released_makes_room_for_the_next_submit_with_its_key(
    store: MemoryStore, clock: Clock
) -> None:
    await store.create_tables(ACCOUNTS)
    reservations = Reservations(store)
    once = SubmitOnce(SubmitKeys(store), Accepting().submit, clock, reservations)
    await reservations.make(room_for(20, asks=1))

    await once.submit(KEY, MESSAGE, "hash", room_for(20, asks=15))

    found = [each async for page in reservations.of_cluster(KEY.ref) for each in page.reservations]
    assert [(each.micro_usd, each.job_id) for each in found] == [(15, "1")]
    assert await reservations.used("acme", PENDING.reservation.month, QUOTA.scope) == 15


async def test_a_key_that_expired_reserves_beside_its_first_job_which_still_runs(
    store: MemoryStore, clock: Clock
) -> None:
    await store.create_tables(ACCOUNTS)
    reservations = Reservations(store)
    once = SubmitOnce(SubmitKeys(store), Accepting().submit, clock, reservations)
    await once.submit(KEY, MESSAGE, "hash", room_for(20))
    clock.at += KEEP_SECONDS + 1

    await once.submit(KEY, MESSAGE, "hash", room_for(20, asks=13))
    again = await once.submit(KEY, MESSAGE, "hash", room_for(20, asks=13))

    found = [each async for page in reservations.of_cluster(KEY.ref) for each in page.reservations]
    assert sorted((each.job_id, each.micro_usd) for each in found) == [("1", 7), ("2", 13)]
    assert (again.job_id, again.repeated) == ("2", True)


async def test_a_key_that_expired_is_no_way_around_a_quota(store: MemoryStore, clock: Clock) -> None:
    await store.create_tables(ACCOUNTS)
    slurm = Accepting()
    once = SubmitOnce(SubmitKeys(store), slurm.submit, clock, Reservations(store))
    await once.submit(KEY, MESSAGE, "hash", room_for(20))
    clock.at += KEEP_SECONDS + 1

    with pytest.raises(QuotaExceeded):
        await once.submit(KEY, MESSAGE, "another", room_for(20, asks=14))

    assert slurm.accepted == 1


async def test_a_late_release_leaves_what_was_reserved_anew_under_the_same_id(store: MemoryStore) -> None:
    await store.create_tables(ACCOUNTS)
    reservations, first = Reservations(store), room_for(20)
    await reservations.make(first)
    await reservations.settle(first.reservation, 0)
    await reservations.make(room_for(20))

    await reservations.settle(first.reservation, 0)

    assert await reservations.used("acme", PENDING.reservation.month, QUOTA.scope) == 7
