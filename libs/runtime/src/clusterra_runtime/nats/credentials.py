"""Authentication of a service at NATS, and of NATS at the service.

A service's own files are read at every connect, so they can be renewed at any time.
"""

import base64
import json
import re
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clusterra_runtime.settings import ServiceSettings

_SECTION = re.compile(r"-+BEGIN ([A-Z ]+)-+\s+(\S+)\s+-+END \1-+")
_JWT = "NATS USER JWT"
_SEED = "USER NKEY SEED"


class CredentialsUnreadable(OSError):
    """A password or credentials file is missing or damaged. It is an OSError, on which nats-py retries the connect."""


def connect_options(settings: ServiceSettings) -> Mapping[str, Any]:
    """The authentication arguments of nats-py's `connect`; empty when nothing is configured.

    Raises CredentialsUnreadable if the authority's certificate cannot be read.
    """
    return {**_trust(settings), **_login(settings)}


def login_of(path: Path) -> tuple[str, datetime | None]:
    """Whose login a .creds file holds, and when it ends; None for never. The server checks the signature, not this.

    Raises CredentialsUnreadable.
    """
    try:
        content = _section(path, _JWT).split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
        expires_at = claims.get("exp")
        return str(claims.get("name", "nobody")), datetime.fromtimestamp(expires_at, UTC) if expires_at else None
    except (IndexError, ValueError, AttributeError, TypeError, OverflowError) as error:
        raise CredentialsUnreadable(f"{path} holds no readable {_JWT} ({type(error).__name__})") from None


def login_end(path: Path | None) -> datetime | None:
    """When the login in a file ends; None if it does not, or cannot be read: the connection itself tells of that."""
    try:
        return None if path is None else login_of(path)[1]
    except CredentialsUnreadable:
        return None


def _trust(settings: ServiceSettings) -> Mapping[str, Any]:
    if (path := settings.nats_ca_file) is None:
        return {}
    try:
        return {"tls": ssl.create_default_context(cafile=path)}
    except OSError as error:
        raise CredentialsUnreadable(
            f"{path} holds no certificate of an authority ({type(error).__name__}): it must be a PEM file"
        ) from None


def _login(settings: ServiceSettings) -> Mapping[str, Any]:
    if (path := settings.nats_credentials_file) is not None:
        return {
            "user_jwt_cb": lambda: bytearray(_section(path, _JWT).encode()),
            "signature_cb": lambda nonce: _sign(_section(path, _SEED), nonce),
        }
    if settings.nats_user is not None and (path := settings.nats_password_file) is not None:
        return {"user": settings.nats_user, "password": lambda: _read(path)}
    return {}


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CredentialsUnreadable(f"{path} cannot be read ({type(error).__name__})") from None


def _section(path: Path, name: str) -> str:
    for found in _SECTION.finditer(_read(path)):
        if found[1] == name:
            return found[2]
    raise CredentialsUnreadable(f"{path} contains no {name}: it must be the .creds file of a NATS user")


def _sign(seed: str, nonce: str) -> bytes:
    # Imported here, because only services that use such credentials need the cryptography.
    import nkeys  # type: ignore[import-untyped]

    try:
        pair = nkeys.from_seed(bytearray(seed.encode()))
    except Exception as error:
        raise CredentialsUnreadable(f"the {_SEED} is invalid ({type(error).__name__})") from None
    try:
        return base64.b64encode(pair.sign(nonce.encode()))
    finally:
        pair.wipe()
