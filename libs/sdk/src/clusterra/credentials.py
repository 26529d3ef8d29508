"""Tokens: one for each gateway, in the keyring where one works, else in a file that only its owner can read.

`CLUSTERRA_TOKEN` goes before both, and is never stored.
"""

import json
import os
import secrets
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from clusterra.context import ConfigError, canonical_url, path, write_privately

TOKEN = "CLUSTERRA_TOKEN"  # noqa: S105 - the name of a variable
SERVICE = "clusterra"
"""The name of our entries in a keyring."""
MAX_BYTES = 1024 * 1024


class CredentialsError(ConfigError):
    """The stored tokens cannot be read or written. The text names the place."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a token was stored."""

    kind: Literal["keyring", "file"]
    text: str
    """The same for people: the name of the keyring, or the path of the file."""


class Credentials(Protocol):
    """Where a client gets its token. It is asked at each request."""

    def token(self) -> str | None:
        """The token; None where there is none."""
        ...

    def renewed(self, refused: str | None) -> str | None:
        """A token in place of one that was refused; None where there is no other."""
        ...


def checked_token(given: str) -> str:
    """A token without the blanks around it, such as the line end of a file. Raises CredentialsError, without it."""
    token = given.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise CredentialsError("the token has characters that no token has: copy it again")
    return token


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token that the caller gave."""

    text: str = field(repr=False)

    def token(self) -> str | None:
        """The token."""
        return self.text

    def renewed(self, refused: str | None) -> str | None:
        """None: there is no other."""
        return None


@dataclass(frozen=True, slots=True)
class NoToken:
    """For what needs no token."""

    def token(self) -> str | None:
        """None."""
        return None

    def renewed(self, refused: str | None) -> str | None:
        """None."""
        return None


@dataclass(slots=True)
class StoredToken:
    """The stored token of a gateway, read once, and again where the gateway refuses it: somebody may have signed in."""

    url: str
    _read: str | None = field(default=None, repr=False)

    def token(self) -> str | None:
        """The token. Raises CredentialsError."""
        if self._read is None:
            self._read = find(self.url)
        return self._read

    def renewed(self, refused: str | None) -> str | None:
        """The token that is stored now, if it is another one. Raises CredentialsError."""
        self._read = find(self.url)
        return None if self._read == refused else self._read


def find(url: str) -> str | None:
    """The token for a gateway; None where there is none. Raises CredentialsError."""
    given = os.environ.get(TOKEN)
    if given:
        return checked_token(given)
    own = canonical_url(url)
    in_file = _stored().get(own)
    if in_file is not None:
        return in_file
    keyring = _keyring()
    if keyring is None:
        return None
    try:
        found = keyring.get_password(SERVICE, own)
    except Exception:
        return None
    return found if isinstance(found, str) and found else None


def store(url: str, token: str) -> Place:
    """Store the token of a gateway, in place of the one before. Raises CredentialsError."""
    own, stored = canonical_url(url), _stored()
    keyring = _keyring()
    # The probe is an entry of its own: one that does not work leaves the token of before as it is.
    probe, value = f"probe-{secrets.token_hex(4)}", secrets.token_hex(8)
    if keyring is not None and _keeps(keyring, probe, value, remove=True) and _keeps(keyring, own, token):
        _write({each: kept for each, kept in stored.items() if each != own})
        return Place("keyring", f"the keyring ({_name_of(keyring)})")
    _write(stored | {own: token})
    return Place("file", str(file()))


def forget(url: str) -> bool:
    """Forget the token of a gateway, wherever it is stored. Returns whether there was one. Raises CredentialsError."""
    own = canonical_url(url)
    stored = _stored()
    gone = stored.pop(own, None) is not None
    if gone:
        _write(stored)
    keyring = _keyring()
    if keyring is not None:
        try:
            if keyring.get_password(SERVICE, own):
                keyring.delete_password(SERVICE, own)
                gone = True
        except Exception:  # noqa: S110 - a keyring that does not work has no token of ours
            pass
    return gone


def file() -> Path:
    """The file of tokens, for machines without a keyring: beside the configuration."""
    return path().with_name("credentials.json")


def _stored() -> dict[str, str]:
    place = file()
    try:
        with place.open("rb") as opened:
            _refuse_open_file(place, os.fstat(opened.fileno()).st_mode)
            raw = opened.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise CredentialsError(f"{place} cannot be read: {error.strerror}") from None
    try:
        document = json.loads(raw)
    except ValueError:
        document = None
    tokens = document.get("tokens") if isinstance(document, dict) and len(raw) <= MAX_BYTES else None
    if not isinstance(tokens, dict) or not all(isinstance(each, str) for each in tokens.values()):
        raise CredentialsError(f"{place} is not a file of tokens: remove it, and sign in again")
    return tokens


def _write(tokens: dict[str, str]) -> None:
    if tokens or file().exists():
        write_privately(file(), json.dumps({"tokens": tokens}, indent=1).encode())


def _refuse_open_file(place: Path, mode: int) -> None:
    if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise CredentialsError(
            f"others can read or write {place}, so its tokens are not used: chmod 600 it, and revoke them"
        )


def _keyring() -> Any:
    """The keyring of the platform; None where the extra `keyring` is not installed or no backend fits."""
    try:
        import keyring
        from keyring.backends.fail import Keyring as Missing
    except ImportError:
        return None
    try:
        backend = keyring.get_keyring()
    except Exception:
        return None
    return None if isinstance(backend, Missing) else backend


def _keeps(keyring: Any, name: str, value: str, *, remove: bool = False) -> bool:
    """Whether a keyring keeps an entry, and loses it again with `remove`: many a machine has one that is locked."""
    try:
        keyring.set_password(SERVICE, name, value)
        kept = keyring.get_password(SERVICE, name) == value
        if remove:
            keyring.delete_password(SERVICE, name)
    except Exception:
        return False
    return bool(kept)


def _name_of(keyring: Any) -> str:
    return str(getattr(keyring, "name", type(keyring).__name__))
