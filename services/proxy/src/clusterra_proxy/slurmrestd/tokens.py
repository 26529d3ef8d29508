"""Mints Slurm's JWTs, which decide who may act as whom. No other part of the system can mint them.

A token itself carries name, uid and groups (`use_jwt_client_ids_only`), so users need no operating system account.
But slurmctld looks the *name* up in slurmdbd and gives that user's rights to whatever uid the token carries. So no
token is ever minted for a privileged name, and a name keeps its uid.
"""

import hashlib
import time
from collections.abc import Callable, Iterable

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import Viewer
from joserfc import jwt
from joserfc.jwk import OctKey

from clusterra_proxy.slurmrestd.errors import Unauthenticated, Unavailable

SYSTEM_NAMES = frozenset({"root", "slurm", "nobody", "munge", "daemon"})
SET_ASIDE = "the Slurm at this cluster's address is bound to another tenant, which keeps it"
LIFETIME_SECONDS = 300.0
SHELL = "/bin/sh"
"""The login shell of every user."""
MIN_ID = 1000


class UserNames:
    """The permanent pairs of user name and uid in one cluster, as far as this process has observed them."""

    def __init__(self) -> None:
        self._uids: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def __len__(self) -> int:
        """Return the number of pairs, which only grows."""
        return len(self._names)

    def bind(self, user: SlurmUser) -> None:
        """Bind a name to its uid. Raises Unauthenticated when either is already bound to another."""
        if self._uids.get(user.name, user.uid) != user.uid or self._names.get(user.uid, user.name) != user.name:
            raise Unauthenticated(
                f"user {user.name} with uid {user.uid}: the name or the uid is already bound to another",
                hint="a name keeps its uid permanently: give the user a unique name and uid",
            )
        self._uids[user.name] = user.uid
        self._names[user.uid] = user.name

    def learn(self, user: SlurmUser) -> None:
        """Bind a name to its uid unless either is already bound."""
        if user.name not in self._uids and user.uid not in self._names:
            self.bind(user)

    def learn_viewer(self, viewer: Viewer) -> None:
        """Bind the name of a viewer who has a uid on this cluster, unless either is already bound."""
        if viewer.identified:
            self.learn(viewer.user)

    def uid(self, name: str) -> int | None:
        """Return the uid bound to a name, or None."""
        return self._uids.get(name)

    def name(self, uid: int, name_in_comment: str = "") -> str:
        """Return the name of a uid. An unbound uid goes by the name in its job's comment, unless another uid has it."""
        if uid in self._names:
            return self._names[uid]
        return name_in_comment if name_in_comment and self._uids.get(name_in_comment, uid) == uid else str(uid)


class TokenMint:
    """Mints tokens (HS256) with a lifetime of minutes for one cluster.

    `key` is read for every token, so that a replaced key takes effect at once. A token is reused until half of its
    lifetime has passed.
    """

    def __init__(self, key: Callable[[], bytes], operator: SlurmUser, *, shared_path: str = "") -> None:
        self._key = key
        self._operator = operator
        self._shared_path = shared_path
        self.names = UserNames()
        self.set_aside = False
        """Whether Slurm belongs to another tenant, so that nobody gets a token."""
        self._privileged: frozenset[str] | None = None
        self._minted: dict[SlurmUser, tuple[float, bytes, str]] = {}

    def reserve_names(self, privileged: Iterable[str]) -> None:
        """Reserve the names with rights in slurmdbd. Until the first call, only the operator gets a token."""
        self._privileged = frozenset(privileged)
        self._minted.clear()

    def operator_token(self) -> str:
        """Return a token of the cluster's operator: the proxy's own service user. Raises Unavailable without a key."""
        self._refuse_set_aside()
        return self._token(self._operator)

    def identifying_token(self) -> str:
        """Return a token of the operator with which Slurm is asked who it is. Raises Unavailable without a key."""
        return self._token(self._operator)

    def key_hash(self) -> str:
        """Return the SHA-256 of the key. Raises Unavailable without one."""
        return hashlib.sha256(self._key()).hexdigest()

    def user_token(self, user: SlurmUser) -> str:
        """Return a token of exactly this user.

        Raises Unauthenticated for a reserved name, a system uid or gid, or a name with another uid than before.
        Raises Unavailable without a key, and while the privileged names are unknown.
        """
        self._refuse_set_aside()
        if self._privileged is None:
            raise Unavailable(
                "the privileged names have not been read from slurmdbd yet, so no user gets a token",
                hint="check that slurmdbd runs, then try again",
            )
        reserved = SYSTEM_NAMES | self._privileged | {self._operator.name}
        if user.name in reserved or user.uid == self._operator.uid:
            raise Unauthenticated(
                f"user {user.name} with uid {user.uid} is reserved: no token is minted for it",
                hint="give the user another name and uid",
            )
        if min(user.uid, user.gid, *user.groups) < MIN_ID:
            raise Unauthenticated(
                f"user {user.name} has a uid or gid below {MIN_ID}, which are reserved for the system",
                hint=f"give the user a uid and gids of {MIN_ID} or more",
            )
        self.names.bind(user)
        return self._token(user)

    def _refuse_set_aside(self) -> None:
        if self.set_aside:
            raise Unavailable(SET_ASIDE, hint="the operators give this cluster a Slurm of its own")

    def _token(self, user: SlurmUser) -> str:
        now, key = time.time(), self._key()
        minted, signed_with, token = self._minted.get(user, (0.0, b"", ""))
        if now - minted < LIFETIME_SECONDS / 2 and now >= minted and signed_with == key:
            return token
        claims = {
            "iat": int(now),
            "exp": int(now + LIFETIME_SECONDS),
            "uid": user.uid,
            "gid": user.gid,
            "id": {
                "name": user.name,
                "gecos": user.name,
                "dir": user.home_in(self._shared_path),
                "shell": SHELL,
                # With names, which `gids` has not: the job's slurmstepd tells them to its worker (note-names).
                "groups": user.gid_of,
            },
        }
        token = jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, OctKey.import_key(key))
        if len(self._minted) >= 10_000:
            self._minted.clear()
        self._minted[user] = (now, key, token)
        return token
