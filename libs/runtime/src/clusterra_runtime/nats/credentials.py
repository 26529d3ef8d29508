"""How a service proves to NATS who it is. Files are read at each connect, so that they can be renewed underneath it."""

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusterra_runtime.settings import ServiceSettings

_SECTION = re.compile(r"-+BEGIN ([A-Z ]+)-+\s+(\S+)\s+-+END \1-+")
_JWT = "NATS USER JWT"
_SEED = "USER NKEY SEED"


class CredentialsUnreadable(OSError):
    """A password or credentials file is missing or damaged. An OSError, which the client answers by trying again."""


def connect_options(settings: ServiceSettings) -> Mapping[str, Any]:
    """The authentication arguments of nats-py's `connect`; none of them when nothing is configured."""
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
    raise CredentialsUnreadable(f"{path} holds no {name}: it must be a .creds file of a NATS user")


def _sign(seed: str, nonce: str) -> bytes:
    # Only who logs in this way pays for the cryptography.
    import nkeys  # type: ignore[import-untyped]

    try:
        pair = nkeys.from_seed(bytearray(seed.encode()))
    except Exception as error:
        raise CredentialsUnreadable(f"the {_SEED} is no valid one ({type(error).__name__})") from None
    try:
        return base64.b64encode(pair.sign(nonce.encode()))
    finally:
        pair.wipe()
