"""User codes: what a person reads on the machine and enters in the browser."""

import re
import secrets
import time

from clusterra_runtime.store.condition import Absent, Present, compare
from clusterra_runtime.store.item import Item
from clusterra_runtime.store.store import ConditionFailed, Put, Store, Update

from clusterra_gateway.accounts.keyspace import ACCOUNTS, user_code_attempts_key
from clusterra_gateway.http.requests.errors import NotFound, TooManyRequests

LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that a code is no word (RFC 8628, section 6.1)."""
LENGTH = 8
MAX_ATTEMPTS = 40
"""How many codes a person may enter in ATTEMPTS_SECONDS. A sign-in takes two; of all codes, it is one in 10^9."""
ATTEMPTS_SECONDS = 600
_CODE = re.compile(f"[{LETTERS}]{{{LENGTH}}}")


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
