"""Slurm tokens: who may act as whom. Nobody else in the system can mint one.

A token says name, uid and groups by itself (`use_jwt_client_ids_only`), so no operating system account is needed;
but slurmctld matches the *name* with slurmdbd's users and gives the rights of that user to whatever uid comes with
it. So a name that has rights of its own is never minted for anybody, and a name keeps its uid.
"""

import time
from collections.abc import Callable, Iterable

from clusterra_contracts.identity import SlurmUser
from joserfc import jwt
from joserfc.jwk import OctKey

from clusterra_proxy.slurmrestd.errors import Unauthenticated, Unavailable

SYSTEM_NAMES = frozenset({"root", "slurm", "nobody", "munge", "daemon"})
LIFETIME_SECONDS = 300.0
MIN_ID = 1000


class UserNames:
    """Which uid a name belongs to, in one tenant's cluster: for good, as far as this process has seen."""

    def __init__(self) -> None:
        self._uids: dict[str, int] = {}
        self._names: dict[int, str] = {}

    def bind(self, user: SlurmUser) -> None:
        """Remember a name with its uid. Raises Unauthenticated when either is known with another."""
        if self._uids.get(user.name, user.uid) != user.uid or self._names.get(user.uid, user.name) != user.name:
            raise Unauthenticated(
                f"user {user.name} with uid {user.uid}: the name or the uid is known with another one",
                hint="one name has one uid for good: give the user a name and a uid of his own",
            )
        self._uids[user.name] = user.uid
        self._names[user.uid] = user.name

    def uid(self, name: str) -> int | None:
        """The uid of a name, when it is known."""
        return self._uids.get(name)

    def name(self, uid: int, name_in_comment: str = "") -> str:
        """The name of a uid; an unknown one goes by what its own job claims, if nobody else has that name."""
        if uid in self._names:
            return self._names[uid]
        return name_in_comment if name_in_comment and self._uids.get(name_in_comment, uid) == uid else str(uid)


class TokenMint:
    """Mints tokens of minutes (HS256) for one cluster.

    `key` is read for every token, so that a replaced key is used at once. Tokens are used again until half of their
    life is over.
    """

    def __init__(self, key: Callable[[], bytes], operator: SlurmUser, *, home: str = "/", names: UserNames) -> None:
        self._key = key
        self._operator = operator
        self._home = home
        self._names = names
        self._privileged: frozenset[str] | None = None
        self._minted: dict[SlurmUser, tuple[float, bytes, str]] = {}

    def reserve_names(self, privileged: Iterable[str]) -> None:
        """Take the names that slurmdbd gives rights to; until the first time nobody but the operator gets a token."""
        self._privileged = frozenset(privileged)
        self._minted.clear()

    def operator(self) -> str:
        """A token of the proxy's own service user, for upkeep. Raises Unavailable without a key."""
        return self._token(self._operator)

    def user(self, user: SlurmUser) -> str:
        """A token of this very user.

        Raises Unauthenticated for a reserved name, a system's uid or gid, or a name with another uid than before;
        Unavailable without a key, and while it is not known which names have rights.
        """
        if self._privileged is None:
            raise Unavailable(
                "slurmdbd has not told yet which names have rights over others, so no user can be let in",
                hint="check that slurmdbd runs; then try again",
            )
        reserved = SYSTEM_NAMES | self._privileged | {self._operator.name}
        if user.name in reserved or user.uid == self._operator.uid:
            raise Unauthenticated(
                f"user {user.name} with uid {user.uid} is reserved: nobody gets a token for it",
                hint="give the user another name and uid",
            )
        if min(user.uid, user.gid, *user.groups) < MIN_ID:
            raise Unauthenticated(
                f"user {user.name} has a uid or a group below {MIN_ID}, which belong to the system",
                hint="give the user ids of his own",
            )
        self._names.bind(user)
        return self._token(user)

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
                "dir": self._home,
                "shell": "/bin/sh",
                "gids": sorted({user.gid, *user.groups}),
            },
        }
        token = jwt.encode({"alg": "HS256", "typ": "JWT"}, claims, OctKey.import_key(key))
        if len(self._minted) >= 10_000:
            self._minted.clear()
        self._minted[user] = (now, key, token)
        return token
