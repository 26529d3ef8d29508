"""Sign-ins with the device flow in the record: begun, approved or denied, and redeemed once; and their user codes.

A user code is what a person reads on the machine and enters in the browser.
"""

import re
import secrets
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from clusterra_contracts.identity import Moment, now
from clusterra_runtime.store.condition import Absent, Present, compare
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.optimistic_write import write_optimistically
from clusterra_runtime.store.store import ConditionFailed, Put, Store, Update

from clusterra_gateway.accounts.keyspace import ACCOUNTS, device_flow_key, user_code_attempts_key, user_code_key
from clusterra_gateway.accounts.records import Member, expiry
from clusterra_gateway.http.requests.errors import Conflict, NotFound, TooManyRequests, Unavailable
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.program_sign_in.grants import Grant
from clusterra_gateway.program_sign_in.oauth_routes import OAuthFailure
from clusterra_gateway.program_sign_in.program import ProgramRequest

VALID_SECONDS = 600
KEPT_SECONDS = 600
"""How long an expired sign-in is known, so that the program is told that it has expired."""
INTERVAL_SECONDS = 5
"""How long a program waits between its polls at first."""
MAX_INTERVAL_SECONDS = 60
TOLERANCE_SECONDS = 1.0
"""How much earlier than its interval a poll may arrive: a slow network may have delayed the one before."""
LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that a code is no word (RFC 8628, section 6.1)."""
LENGTH = 8
MAX_ATTEMPTS = 40
"""How many codes a person may enter in ATTEMPTS_SECONDS. A sign-in takes two; of all codes, it is one in 10^9."""
ATTEMPTS_SECONDS = 600
_CODE = re.compile(f"[{LETTERS}]{{{LENGTH}}}")


class DeviceFlow(Grant):
    """A sign-in. Its codes are stored as hashes.

    A person enters the user code, so it has few bits; whoever reads the record could find it in the ten minutes that
    it is good for, and then sign in the program as themselves.
    """

    begun_at: Moment
    state: Literal["pending", "approved", "denied", "redeemed"] = "pending"
    interval_seconds: int = INTERVAL_SECONDS
    polled_at: Moment | None = None


@dataclass(frozen=True, slots=True)
class BegunFlow:
    """A sign-in with its codes, which are kept nowhere."""

    device_code: str = field(repr=False)
    user_code: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class KnownFlow:
    """A sign-in that was found by one of its codes."""

    code_hash: str
    """The hash of its device code."""
    record: DeviceFlow

    def redeemed(self, _made: FreshToken) -> Update:
        """The write that redeems it, if it is approved."""
        key, approved = device_flow_key(self.code_hash), compare("state", "==", "approved")
        return Update(ACCOUNTS, key, set={"state": "redeemed"}, condition=approved)


class DeviceFlows:
    """The sign-ins of all programs."""

    def __init__(self, store: Store) -> None:
        self.store = store

    async def begin(self, wanted: ProgramRequest) -> BegunFlow:
        """Begins a sign-in."""
        device_code, begun_at = secrets.token_urlsafe(32), now()
        record = DeviceFlow(
            machine=wanted.machine,
            scopes=wanted.scopes,
            token_seconds=wanted.token_seconds,
            begun_at=begun_at,
            valid_until=begun_at + timedelta(seconds=VALID_SECONDS),
        )
        code_hash = secret_hash(device_code)
        kept_until = expiry(record.valid_until + timedelta(seconds=KEPT_SECONDS))
        flow = Put(ACCOUNTS, device_flow_key(code_hash), record.attributes(), Absent(), kept_until)

        async def attempt() -> BegunFlow:
            user_code = new_user_code()
            key = user_code_key(secret_hash(user_code))
            code = Put(ACCOUNTS, key, {"device_code_hash": code_hash}, Absent(), expiry(record.valid_until))
            # It is cancelled where another sign-in has this user code.
            await self.store.transact([flow, code], token=f"device-flow-{secrets.token_hex(16)}")
            return BegunFlow(device_code, user_code)

        return await write_optimistically(attempt, contended=Unavailable("no code is free now", hint="try again"))

    async def waiting(self, user_code: str) -> KnownFlow:
        """The sign-in that waits for an answer and has this user code. Raises NotFound."""
        code = await self.store.get(ACCOUNTS, user_code_key(secret_hash(user_code)))
        known = None if code is None else await self._known(str(code.attributes["device_code_hash"]))
        if known is None or known.record.state != "pending" or known.record.valid_until <= now():
            raise no_such_code()
        return known

    async def decide(self, flow: KnownFlow, member: Member, *, approved: bool) -> None:
        """Writes the member's answer. Raises Conflict where it has an answer already."""
        answer = {"state": "approved" if approved else "denied", "member": member.id}
        pending = compare("state", "==", "pending")
        try:
            await self.store.write(Update(ACCOUNTS, device_flow_key(flow.code_hash), set=answer, condition=pending))
        except ConditionFailed:
            raise Conflict("this sign-in has been answered already", hint="begin again on the machine") from None

    async def approved(self, device_code: str) -> KnownFlow:
        """The sign-in with this device code, if it is approved. Raises OAuthFailure, which says what the program does.

        Of a sign-in without an answer, the time of the poll is noted: a program that asks faster than it was told to is
        told to slow down, by all replicas.
        """
        known, at = await self._known(secret_hash(device_code)), now()
        if known is None or known.record.state == "redeemed":
            raise OAuthFailure("invalid_grant", "this device code is wrong or was redeemed: begin again")
        if known.record.state == "denied":
            raise OAuthFailure("access_denied", "the person has denied the request")
        if known.record.valid_until <= at:
            raise OAuthFailure("expired_token", "the codes have expired: begin again")
        if known.record.state == "pending":
            raise await self._noted(known, at)
        return known

    async def _noted(self, known: KnownFlow, at: datetime) -> OAuthFailure:
        flow = known.record
        earliest = None if flow.polled_at is None else flow.polled_at + timedelta(seconds=flow.interval_seconds)
        early = earliest is not None and at < earliest - timedelta(seconds=TOLERANCE_SECONDS)
        interval = (
            min(flow.interval_seconds + INTERVAL_SECONDS, MAX_INTERVAL_SECONDS) if early else flow.interval_seconds
        )
        poll = flow.model_copy(update={"polled_at": at, "interval_seconds": interval}).attributes()
        noted = {name: poll[name] for name in ("polled_at", "interval_seconds")}
        key, pending = device_flow_key(known.code_hash), compare("state", "==", "pending")
        with suppress(ConditionFailed):  # the person has just answered: the next poll tells it
            await self.store.write(Update(ACCOUNTS, key, set=noted, condition=pending))
        if early:
            return OAuthFailure("slow_down", f"wait for {interval} seconds between two polls")
        return OAuthFailure("authorization_pending", "the person has not answered yet")

    async def _known(self, code_hash: str) -> KnownFlow | None:
        item = await self.store.get(ACCOUNTS, device_flow_key(code_hash))
        return None if item is None else KnownFlow(code_hash, DeviceFlow.of(item))


def new_user_code() -> str:
    """A code of 34 random bits."""
    return "".join(secrets.choice(LETTERS) for _ in range(LENGTH))


def shown(user_code: str) -> str:
    """A code as people see it: `WDJB-MJHT`."""
    return f"{user_code[: LENGTH // 2]}-{user_code[LENGTH // 2 :]}"


def entered(text: str) -> str:
    """The code that a person has entered, in any case and with any spaces and dashes. Raises NotFound."""
    code = re.sub(r"[\s-]", "", text).upper()
    if not _CODE.fullmatch(code):
        raise no_such_code()
    return code


def no_such_code() -> NotFound:
    """The answer to a code that belongs to no sign-in that waits for an answer."""
    return NotFound(
        "no sign-in waits for this code", hint="compare it with the code on the machine, or begin there again"
    )


async def count_attempt(store: Store, member_id: str) -> None:
    """Counts a code that a member enters, for all replicas. Raises TooManyRequests."""
    key = user_code_attempts_key(member_id)
    more = Update(ACCOUNTS, key, add={"attempts": 1}, condition=Present() & compare("attempts", "<", MAX_ATTEMPTS))
    first = Put(ACCOUNTS, key, {"attempts": 1}, Absent(), int(time.time()) + ATTEMPTS_SECONDS)
    current: Item | None = None
    for write in (more, first, more):
        try:
            await store.write(write)
        except ConditionFailed as failed:
            current = failed.current
            if write is more and current is not None:
                break
        else:
            return
    wait = ATTEMPTS_SECONDS if current is None or current.expires_at is None else current.expires_at - int(time.time())
    raise TooManyRequests(
        f"you have entered more than {MAX_ATTEMPTS} codes in the last minutes",
        hint="try again in some minutes",
        retry_after_seconds=max(wait, 1),
    )
