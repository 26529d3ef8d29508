import time
from collections.abc import Callable

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_proxy.slurmrestd.errors import SlurmFailed, Unauthenticated, Unavailable
from clusterra_proxy.slurmrestd.tokens import LIFETIME_SECONDS, TokenMint, UserNames
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import OctKey

KEY = b"k" * 64
OPERATOR = SlurmUser(name="clusterra", uid=64000, gid=64000)
ALICE = SlurmUser(name="alice", uid=5001, gid=5001, groups=(6000, 5001))
BOB = SlurmUser(name="bob", uid=5002, gid=5002)


def token_mint(key: Callable[[], bytes] = lambda: KEY, privileged: set[str] | None = None) -> TokenMint:
    minter = TokenMint(key, OPERATOR, home="/shared")
    if privileged is not None:
        minter.reserve_names(privileged)
    return minter


def claims(token: str, key: bytes = KEY) -> dict[str, object]:
    return jwt.decode(token, OctKey.import_key(key), algorithms=["HS256"]).claims


def test_a_token_says_who_it_is_for_and_ends_in_minutes() -> None:
    token_claims = claims(token_mint(privileged=set()).user(ALICE))
    assert token_claims["uid"] == 5001
    assert token_claims["gid"] == 5001
    assert token_claims["id"] == {
        "name": "alice",
        "gecos": "alice",
        "dir": "/shared",
        "shell": "/bin/sh",
        "gids": [5001, 6000],
    }
    assert token_claims["exp"] - token_claims["iat"] == LIFETIME_SECONDS  # type: ignore[operator]
    assert abs(time.time() - token_claims["iat"]) < 5  # type: ignore[operator]


@pytest.mark.parametrize("name", ["root", "slurm", "nobody", "clusterra", "admin"])
def test_names_with_rights_are_nobodys(name: str) -> None:
    with pytest.raises(Unauthenticated, match="reserved"):
        token_mint(privileged={"admin"}).user(SlurmUser(name=name, uid=5001, gid=5001))


def test_the_operators_uid_is_nobody_elses() -> None:
    with pytest.raises(Unauthenticated, match="reserved"):
        token_mint(privileged=set()).user(SlurmUser(name="alice", uid=OPERATOR.uid, gid=5001))


def test_a_name_that_got_rights_loses_its_token() -> None:
    minter = token_mint(privileged=set())
    minter.user(ALICE)
    minter.reserve_names({"alice"})
    with pytest.raises(Unauthenticated, match="reserved"):
        minter.user(ALICE)


@pytest.mark.parametrize(
    "user",
    [
        SlurmUser.model_construct(name="alice", uid=0, gid=5001, groups=()),
        SlurmUser.model_construct(name="alice", uid=999, gid=5001, groups=()),
        SlurmUser.model_construct(name="alice", uid=5001, gid=0, groups=()),
        SlurmUser(name="alice", uid=5001, gid=5001, groups=(0,)),
    ],
)
def test_ids_of_the_system_are_nobodys(user: SlurmUser) -> None:
    with pytest.raises(Unauthenticated, match="below 1000"):
        token_mint(privileged=set()).user(user)


@pytest.mark.parametrize("other", [ALICE.model_copy(update={"uid": 5009}), BOB.model_copy(update={"uid": 5001})])
def test_one_name_has_one_uid(other: SlurmUser) -> None:
    minter = token_mint(privileged=set())
    minter.user(ALICE)
    with pytest.raises(Unauthenticated, match="bound to another"):
        minter.user(other)
    minter.user(BOB)


def test_nobody_gets_a_token_while_it_is_unknown_who_has_rights() -> None:
    minter = token_mint()
    with pytest.raises(Unavailable, match="slurmdbd"):
        minter.user(ALICE)
    assert claims(minter.operator())["uid"] == OPERATOR.uid


def test_a_token_is_used_again_until_half_of_its_life(monkeypatch: pytest.MonkeyPatch) -> None:
    minter = token_mint(privileged=set())
    first = minter.user(ALICE)
    began = time.time()
    monkeypatch.setattr(time, "time", lambda: began + LIFETIME_SECONDS / 2 - 1)
    assert minter.user(ALICE) == first
    monkeypatch.setattr(time, "time", lambda: began + LIFETIME_SECONDS / 2 + 1)
    assert minter.user(ALICE) != first


def test_a_new_key_is_used_at_once() -> None:
    keys = [KEY]
    minter = token_mint(lambda: keys[0], privileged=set())
    minter.user(ALICE)
    keys[0] = b"n" * 64
    assert claims(minter.user(ALICE), keys[0])["uid"] == 5001


@given(
    st.builds(
        SlurmUser,
        name=st.sampled_from(["root", "eve", "slurm", "dba", "clusterra"]),
        uid=st.integers(1000, 70000),
        gid=st.integers(1000, 70000),
        groups=st.lists(st.integers(0, 70000)).map(tuple),
    )
)
def test_no_token_for_a_user_ever_carries_rights(user: SlurmUser) -> None:
    try:
        token_claims = claims(token_mint(privileged={"dba"}).user(user))
    except SlurmFailed:
        return
    identity = token_claims["id"]
    assert isinstance(identity, dict)
    assert identity["name"] == "eve"
    assert token_claims["uid"] not in (0, OPERATOR.uid)
    assert min(identity["gids"]) >= 1000


def test_names_shown_are_those_that_are_known() -> None:
    names = UserNames()
    names.bind(ALICE)
    assert names.name(5001) == "alice"
    assert names.name(5001, "mallory") == "alice"
    assert names.name(7000, "alice") == "7000"
    assert names.name(7000, "carol") == "carol"
    assert names.name(7000) == "7000"
