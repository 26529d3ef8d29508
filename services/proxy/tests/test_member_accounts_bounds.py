"""What keeps members' associations is bounded, and a slurmdbd that is away holds up no submit for long."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_proxy.cluster import member_accounts
from clusterra_proxy.cluster.member_accounts import AccountNames, MemberAccounts
from clusterra_proxy.requests.accounts.block_submits import _defaults
from clusterra_proxy.slurmrestd.accounting_records import AccountingJob
from clusterra_proxy.slurmrestd.associations import CLOSED_ACCOUNTS, DEACTIVATED_ACCOUNT, OWN_ACCOUNTS, Association
from clusterra_proxy.slurmrestd.errors import Rejected, SlurmFailed, Unreachable
from clusterra_proxy.slurmrestd.reading.fields import MEMBERS_ACCOUNT
from clusterra_proxy.slurmrestd.records import JobRecord

REF = ClusterRef(tenant="acme", cluster="main")


@dataclass
class PlayedAccounting:
    """slurmdbd in memory. It fails with `failure`, and answers when `answers` is set."""

    names: set[str] = field(default_factory=lambda: {"root", "operators", "physics"})
    users: dict[str, dict[str, bool]] = field(default_factory=dict)
    """By user, whether each of their accounts is the default."""
    here: set[str] = field(default_factory=lambda: {"physics", "later", *(f"group{number}" for number in range(9))})
    """The accounts of this cluster. Users are added to no others."""
    reads: int = 0
    failure: SlurmFailed | None = None
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: int = 0
    most_at_once: int = 0

    async def accounts(self, _token: str) -> tuple[str, AccountNames]:
        self.reads += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.answers.wait()
        finally:
            self.at_once -= 1
        if self.failure is not None:
            raise self.failure
        return "lab", frozenset(self.names)

    async def associations(self, _token: str, *, user: str) -> tuple[Association, ...]:
        known = self.users.get(user, {})
        return tuple(Association(account=name, user=user, is_default=default) for name, default in known.items())

    async def add_accounts(self, _token: str, names: Iterable[str], _cluster: str) -> None:
        self.names.update(given := set(names))
        self.here |= given

    async def add_users(
        self, _token: str, users: Iterable[str], accounts: Iterable[str], _cluster: str, *, default: str
    ) -> None:
        for user in users:
            self.users.setdefault(user, {}).update({name: name == default for name in accounts if name in self.here})


@pytest.fixture
def accounting() -> PlayedAccounting:
    played = PlayedAccounting()
    played.answers.set()
    return played


def members(accounting: Any) -> MemberAccounts:
    return MemberAccounts(REF, accounting, lambda: "token")


async def test_a_new_member_is_added_once_to_each_open_account(accounting: PlayedAccounting) -> None:
    of = members(accounting).of

    found = await asyncio.gather(*(of("ada") for _ in range(20)))

    assert set(found) == {frozenset({MEMBERS_ACCOUNT, "physics"})}
    assert accounting.users == {"ada": {MEMBERS_ACCOUNT: True, "physics": False}}
    assert accounting.reads == 1
    assert OWN_ACCOUNTS.keys() <= accounting.names


async def test_an_account_of_another_cluster_alone_is_added_to_this_one(accounting: PlayedAccounting) -> None:
    """Several clusters may share a slurmdbd, and so the names of accounts."""
    accounting.names |= OWN_ACCOUNTS.keys()

    assert MEMBERS_ACCOUNT in (await members(accounting).of("ada") or ())

    assert accounting.here >= OWN_ACCOUNTS.keys()


async def test_a_default_account_that_somebody_has_set_stays(accounting: PlayedAccounting) -> None:
    accounting.users["ada"] = {"physics": True}

    assert await members(accounting).of("ada") == frozenset({MEMBERS_ACCOUNT, "physics"})

    assert accounting.users["ada"] == {"physics": True, MEMBERS_ACCOUNT: False}


async def test_an_account_that_was_just_made_is_found_and_no_closed_one(accounting: PlayedAccounting) -> None:
    of = members(accounting).of
    await of("ada")
    accounting.names.add("later")

    assert "later" in (await of("ada", "later") or ())
    for closed in CLOSED_ACCOUNTS:
        assert closed not in (await of("ada", closed) or ())


async def test_of_very_many_accounts_a_member_is_in_the_first_and_in_those_they_name(
    accounting: PlayedAccounting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_accounts, "MAX_ACCOUNTS", 3)
    accounting.names = {f"group{number}" for number in range(9)}
    of = members(accounting).of

    assert await of("ada") == frozenset({MEMBERS_ACCOUNT, "group0", "group1", "group2"})
    assert "group8" in (await of("ada", "group8") or ())

    found = await asyncio.gather(*(of("bob", account) for account in ("", "group7", "group8")))

    assert "group7" in (found[1] or ())
    assert "group8" in (found[2] or ())


async def test_a_slurmdbd_that_does_not_answer_is_waited_for_briefly_and_asked_one_thing(
    accounting: PlayedAccounting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(member_accounts, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(member_accounts, "ANSWER_SECONDS", 0.2)
    accounting.answers.clear()
    kept = members(accounting)

    async with asyncio.timeout(60):
        found = await asyncio.gather(*(kept.of(f"user{number}") for number in range(50)))
        await asyncio.gather(*kept._adding._running.values(), return_exceptions=True)
        later = await kept.of("ada")
        await kept.close()

    assert set(found) == {None}
    assert later is None
    assert (accounting.reads, accounting.most_at_once) == (1, 1)


@pytest.mark.parametrize(
    ("failure", "asked_again"), [(Unreachable("slurmdbd is away"), False), (Rejected("not this user"), True)]
)
async def test_after_a_failure_of_slurmdbd_it_is_left_alone_for_a_while(
    accounting: PlayedAccounting, failure: SlurmFailed, asked_again: bool
) -> None:
    accounting.failure = failure
    of = members(accounting).of

    assert await of("ada") is None
    accounting.failure = None

    assert (await of("bob") is not None) is asked_again


async def test_who_is_known_needs_no_slurmdbd(accounting: PlayedAccounting) -> None:
    of = members(accounting).of
    known = await of("ada")
    accounting.failure = Unreachable("slurmdbd is away")
    await of("bob")

    assert await of("ada") == known


def test_only_default_accounts_that_are_not_as_they_should_be_are_changed() -> None:
    known = [
        Association(account=DEACTIVATED_ACCOUNT, user=name, cluster="lab", is_default=default)
        for name, default in (("in", True), ("new", False), ("back", True), ("out", False))
    ]

    changed = {str(each["user"]): each["account"] for each in _defaults(known, frozenset({"in", "new"}))}

    assert changed == {"new": DEACTIVATED_ACCOUNT, "back": MEMBERS_ACCOUNT}


@pytest.mark.parametrize(("booked", "told"), [(MEMBERS_ACCOUNT, ""), ("physics", "physics"), ("", ""), (None, "")])
def test_the_account_of_jobs_that_name_none_is_none(booked: str | None, told: str) -> None:
    record = JobRecord.model_validate({"job_id": 1, "job_state": ["PENDING"], "account": booked})
    past = AccountingJob.model_validate(
        {"job_id": 1, "state": {"current": ["COMPLETED"]}, "time": {}, "account": booked}
    )

    assert (record.account, past.to_job_record(None).account) == (told, told)
