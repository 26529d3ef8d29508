"""The accounts of members in slurmdbd: each member is a user in all of them, so that Slurm shows them their own jobs.

slurmdbd shows a user the jobs that ran in their own associations (`PrivateData=jobs` in slurmdbd.conf), so a member
gets theirs before their first submit. slurmdbd is asked for one member at a time, and left alone for a while after it
failed. A submit waits for it briefly at most.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import structlog
from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.bounded_cache import BoundedCache
from clusterra_runtime.single_flight import SingleFlight

from clusterra_proxy.slurmrestd.accounting import Accounting
from clusterra_proxy.slurmrestd.associations import CLOSED_ACCOUNTS, OWN_ACCOUNTS
from clusterra_proxy.slurmrestd.errors import SlurmFailed, Unavailable
from clusterra_proxy.slurmrestd.reading.fields import MEMBERS_ACCOUNT

log = structlog.get_logger(__name__)

MAX_KNOWN = 10_000
"""The most members of a cluster whose accounts are remembered."""
KNOWN_SECONDS = 300.0
"""How long they are remembered: somebody may add an account, or remove an association."""
MAX_ACCOUNTS = 200
"""The most accounts that a member is added to without naming them."""
WAIT_SECONDS = 3.0
"""How long a submit waits for slurmdbd."""
ANSWER_SECONDS = 10.0
"""In this time slurmdbd must have added a member. Otherwise it counts as away."""
AWAY_SECONDS = 30.0
"""How long slurmdbd is not asked after it failed: each request that it does not answer holds one of slurmrestd's four
threads."""

type AccountNames = frozenset[str]


class MemberAccounts:
    """The accounts in which each member of one cluster may have jobs."""

    def __init__(self, ref: ClusterRef, accounting: Accounting, token: Callable[[], str]) -> None:
        self._ref = ref
        self._accounting = accounting
        self._token = token
        self._known = BoundedCache[str, AccountNames](MAX_KNOWN, KNOWN_SECONDS)
        self._adding = SingleFlight[str, AccountNames]()
        self._one = asyncio.Lock()
        self._away_until = 0.0

    async def of(self, user: str, account: str = "") -> AccountNames | None:
        """Add a member to all accounts, and return these; None where slurmdbd does not answer, or failed lately.

        slurmdbd is asked again where `account` is not among the remembered ones.
        """
        known = self._known.get(user)
        if known is not None and (not account or account in known):
            return known
        if time.monotonic() < self._away_until:
            return None
        began = False

        async def add() -> AccountNames:
            nonlocal began
            began = True
            return await self._add(user, account)

        try:
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    found = await self._adding.get(user, add)
                    # What ran already may have been for another account.
                    if began or not account or account in found:
                        return found
        except (TimeoutError, SlurmFailed) as failed:
            log.warning("member_accounts_not_kept", user=user, reason=str(failed) or "slurmdbd does not answer")
            return None

    async def close(self) -> None:
        """Give up what slurmdbd has not answered."""
        await self._adding.close()

    async def alone[T](self, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Have work ask slurmdbd, after all work that asks it already.

        Raises Unavailable for work that takes longer, and at once for a while after slurmdbd has failed.
        """
        async with self._one:
            if time.monotonic() < self._away_until:
                raise Unavailable("slurmdbd did not answer just now", hint="try again in a minute")
            try:
                async with asyncio.timeout(seconds):
                    return await work()
            except (TimeoutError, Unavailable) as failed:
                # Before the next one has its turn.
                self._away_until = time.monotonic() + AWAY_SECONDS
                if isinstance(failed, Unavailable):
                    raise
                raise Unavailable(f"slurmdbd did not answer within {seconds:g} s") from None

    async def _add(self, user: str, account: str) -> AccountNames:
        found = await self.alone(partial(self._add_to_all, user, account), ANSWER_SECONDS)
        self._known.put(user, found)
        return found

    async def _add_to_all(self, user: str, account: str) -> AccountNames:
        token = self._token()
        cluster, existing = await self._accounting.accounts(token)
        open_to_all = self._bounded(existing - CLOSED_ACCOUNTS - OWN_ACCOUNTS.keys(), account)
        theirs = await self._accounting.associations(token, user=user)
        if lacking := open_to_all - {each.account for each in theirs}:
            if MEMBERS_ACCOUNT in lacking:
                # It may be there for another cluster of the same slurmdbd.
                await self._accounting.add_accounts(token, OWN_ACCOUNTS, cluster)
            # A default that somebody else has given stays.
            default = "" if any(each.is_default for each in theirs) else MEMBERS_ACCOUNT
            await self._accounting.add_users(token, (user,), sorted(lacking), cluster, default=default)
            theirs = await self._accounting.associations(token, user=user)
        return frozenset(each.account for each in theirs) - CLOSED_ACCOUNTS

    def _bounded(self, accounts: AccountNames, account: str) -> AccountNames:
        """MEMBERS_ACCOUNT, the named account, and the first others."""
        if len(accounts) > MAX_ACCOUNTS:
            log.warning("more_accounts_than_members_are_added_to", cluster=str(self._ref), most=MAX_ACCOUNTS)
        return frozenset((MEMBERS_ACCOUNT, *sorted(accounts)[:MAX_ACCOUNTS], *({account} & accounts)))
