"""Authorization codes in the record: a browser takes one to the program, which redeems it once."""

import base64
import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Literal

from clusterra_contracts.identity import now
from clusterra_runtime.store.condition import Absent, compare
from clusterra_runtime.store.store import Put, Store, Update

from clusterra_gateway.accounts.keyspace import ACCOUNTS, authorization_code_key
from clusterra_gateway.accounts.records import Member, expiry
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.identity.tokens.token_records import FreshToken
from clusterra_gateway.program_sign_in.grants import Grant
from clusterra_gateway.program_sign_in.program import AuthorizationRequest

VALID_SECONDS = 60
KEPT_SECONDS = 600
"""How long a code is known after its end, to notice that it is redeemed again."""


class AuthorizationCode(Grant):
    """What a code stands for. Only its hash is stored."""

    redirect_uri: str
    challenge: str
    """The code challenge of PKCE with S256: only the program that began knows its verifier."""
    state: Literal["open", "redeemed"] = "open"
    token_id: str = ""
    """The token that it was redeemed for."""

    def belongs_to(self, redirect_uri: str, verifier: str) -> bool:
        """Whether the program with this verifier began the sign-in."""
        digest = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).decode().rstrip("=")
        return hmac.compare_digest(self.challenge, digest) and self.redirect_uri == redirect_uri


@dataclass(frozen=True, slots=True)
class KnownCode:
    """A code that is in the record."""

    code_hash: str
    record: AuthorizationCode

    def redeemed(self, made: FreshToken) -> Update:
        """The write that redeems it for this token, if it is open."""
        done = {"state": "redeemed", "token_id": made.id}
        key = authorization_code_key(self.code_hash)
        return Update(ACCOUNTS, key, set=done, condition=compare("state", "==", "open"))


class AuthorizationCodes:
    """The codes of all sign-ins."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def make(self, asked: AuthorizationRequest, member: Member) -> str:
        """A new code for what this member has granted. It is kept nowhere."""
        code = secrets.token_urlsafe(32)
        record = AuthorizationCode(
            machine=asked.machine,
            scopes=asked.scopes,
            token_seconds=asked.token_seconds,
            valid_until=now() + timedelta(seconds=VALID_SECONDS),
            member=member.id,
            redirect_uri=asked.redirect_uri,
            challenge=asked.code_challenge,
        )
        kept_until = expiry(record.valid_until + timedelta(seconds=KEPT_SECONDS))
        key = authorization_code_key(secret_hash(code))
        await self._store.write(Put(ACCOUNTS, key, record.attributes(), Absent(), kept_until))
        return code

    async def known(self, code: str) -> KnownCode | None:
        """The code in the record; None if it does not exist or was used."""
        code_hash = secret_hash(code)
        item = await self._store.get(ACCOUNTS, authorization_code_key(code_hash))
        return None if item is None else KnownCode(code_hash, AuthorizationCode.of(item))
