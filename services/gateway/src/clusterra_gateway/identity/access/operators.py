"""The operators of the platform: who they are, and how their tokens are verified.

An operator has a token of their own, whose hash stands in a file that the settings name (`CLUSTERRA_OPERATORS_FILE`).
That is the simplest thing that is safe: whoever reads the file, a backup or the record learns no secret. No sign-in at
an issuer makes anybody an operator, so neither an issuer nor an invitation can. A bearer token is sent by no browser on
its own, so no page of another site can use it. To take a token away, remove its entry: every replica reads the file
again within 15 seconds.
"""

import asyncio
import hmac
import re
import secrets
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import structlog
import yaml
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from clusterra_gateway.accounts.roles import OPERATOR_SCOPES, OperatorScope
from clusterra_gateway.http.requests.errors import Forbidden, Unauthenticated
from clusterra_gateway.identity.access.credentials import secret_hash
from clusterra_gateway.settings import SettingsFileInvalid, read_settings_file

log = structlog.get_logger()

OPERATOR_PREFIX = "clusterra-operator_"
"""Not `clusterra_`, which begins the tokens of members."""
FILE_SECONDS = 15.0
"""How long what the file said is used without reading it again: as long as any verified credential is trusted."""
MAX_OPERATORS = 100
MAX_FILE_BYTES = 64 * 1024
_TOKEN = re.compile(rf"{OPERATOR_PREFIX}[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True)
class Operator:
    """An authenticated operator of the platform. They belong to no tenant."""

    name: str
    scopes: tuple[OperatorScope, ...]

    @property
    def actor(self) -> str:
        """How events and logs name them. No user name has a colon, so it is never taken for a member."""
        return f"operator:{self.name}"

    def require(self, scope: OperatorScope) -> None:
        """Raises Forbidden without the scope."""
        if scope not in self.scopes:
            raise Forbidden(f"this operator lacks the scope {scope}", hint="add it to their entry in the file")


class _OperatorEntry(BaseModel):
    """An operator as the file has them: `token_sha256` is the hash of their token, in hexadecimal digits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,31}$")]
    token_sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    scopes: Annotated[tuple[OperatorScope, ...], Field(min_length=1, max_length=len(OPERATOR_SCOPES))]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    operators: Annotated[tuple[_OperatorEntry, ...], Field(max_length=MAX_OPERATORS)]

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for field in ("name", "token_sha256"):
            counted = Counter(getattr(each, field) for each in self.operators)
            if max(counted.values(), default=0) > 1:
                raise ValueError(f"each {field} must be there once")
        return self


class Operators:
    """Verifies the tokens of operators against the file."""

    def __init__(self, file: Path | None) -> None:
        """Reads the file, so that a wrong one ends the start. Raises SettingsFileInvalid."""
        self._file = file
        self._known = () if file is None else _read(file)
        self._read_at = time.monotonic()

    async def operator(self, token: str) -> Operator:
        """The operator with this token. Raises Unauthenticated."""
        if _TOKEN.fullmatch(token) is None:
            raise Unauthenticated("this operator's token is malformed", hint="send it exactly as it was shown")
        digest = secret_hash(token)
        for each in await self._current():
            if hmac.compare_digest(each.token_sha256, digest):
                return Operator(each.name, each.scopes)
        raise Unauthenticated("this operator's token is wrong or was taken away", hint="ask the other operators")

    async def _current(self) -> tuple[_OperatorEntry, ...]:
        """The operators in the file. After a wrong change, those before it stay, which the log says."""
        if self._file is not None and time.monotonic() - self._read_at >= FILE_SECONDS:
            self._read_at = time.monotonic()
            try:
                self._known = await asyncio.to_thread(_read, self._file)
            except SettingsFileInvalid as error:
                log.error("operators_not_read", reason=str(error), consequence="the ones before stay")  # noqa: TRY400
        return self._known


def new_token() -> str:
    """Makes an operator's token: a prefix that secret scanners can find, and 256 random bits."""
    return f"{OPERATOR_PREFIX}{secrets.token_urlsafe(32)}"


def entry_of(name: str, token: str, *, read_only: bool = False) -> str:
    """The entry of an operator in the file, as YAML. Raises pydantic's ValidationError for a wrong name."""
    scopes: tuple[OperatorScope, ...] = ("tenants:read",) if read_only else OPERATOR_SCOPES
    given = _OperatorEntry(name=name, token_sha256=secret_hash(token), scopes=scopes)
    entry: str = yaml.safe_dump([given.model_dump(mode="json")], sort_keys=False)
    return entry.rstrip()


def is_operator_token(credential: str) -> bool:
    """Whether a credential claims to be an operator's."""
    return credential.startswith(OPERATOR_PREFIX)


def _read(path: Path) -> tuple[_OperatorEntry, ...]:
    return read_settings_file(path, _File, max_bytes=MAX_FILE_BYTES).operators
