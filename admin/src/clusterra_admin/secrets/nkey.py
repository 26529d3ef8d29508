"""Ed25519 keys as NATS writes them: `SO…` seeds of operators, `SA…` of accounts, `SU…` of users."""

import base64
import binascii
import hashlib
import hmac
import os

import nkeys  # type: ignore[import-untyped]

from clusterra_admin.secrets.problem import SecretsProblem

PREFIXES = {"O": nkeys.PREFIX_BYTE_OPERATOR, "A": nkeys.PREFIX_BYTE_ACCOUNT, "U": nkeys.PREFIX_BYTE_USER}


class Key:
    """A key pair of one kind: `O` for an operator, `A` for an account, `U` for a user."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self._pair = nkeys.from_seed(bytearray(seed.encode()))
        self.public: str = self._pair.public_key.decode()

    @classmethod
    def new(cls, kind: str) -> "Key":
        """A new random key."""
        return cls(nkeys.encode_seed(os.urandom(32), PREFIXES[kind]).decode())

    def derived(self, kind: str, name: str) -> "Key":
        """Another key, which follows from this one and a name. Whoever has it learns nothing of this one."""
        digest = hmac.new(self.seed.encode(), name.encode(), hashlib.sha256).digest()
        return Key(nkeys.encode_seed(digest, PREFIXES[kind]).decode())

    @classmethod
    def read(cls, text: str, kind: str, name: str) -> "Key":
        """The key of a seed. Raises SecretsProblem, which names the file and not the seed."""
        try:
            key = cls(text.strip())
            _check(text.strip())
        except (ValueError, nkeys.NkeysError):
            raise SecretsProblem(f"{name} is not the seed of an NKey") from None
        if not key.public.startswith(kind):
            raise SecretsProblem(f"{name} is a seed of another kind: it must begin with S{kind}")
        return key

    def sign(self, message: bytes) -> bytes:
        """The signature of a message."""
        signature: bytes = self._pair.sign(message)
        return signature


def _check(seed: str) -> None:
    """Raises ValueError unless the checksum at a seed's end is right: the library does not look at it."""
    raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
    if binascii.crc_hqx(raw[:-2], 0) != int.from_bytes(raw[-2:], "little"):
        raise ValueError("wrong checksum")
