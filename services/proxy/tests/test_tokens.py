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


def make_mint(key: Callable[[], bytes] = lambda: KEY, privileged: set[str] | None = None) -> TokenMint:
    mint = TokenMint(key, OPERATOR, shared_path="/shared")
    if privileged is not None:
        mint.reserve_names(privileged)
    return mint


def decode(token: str, key: bytes = KEY) -> dict[str, object]:
    return jwt.decode(token, OctKey.import_key(key), algorithms=["HS256"]).claims


def test_a_token_carries_its_users_identity_and_expires_in_minutes() -> None:
    claims = decode(make_mint(privileged=set()).user_token(ALICE))
    assert claims["uid"] == 5001
    assert claims["gid"] == 5001
    assert claims["id"] == {
        "name": "alice",
        "gecos": "alice",
        "dir": "/shared/home/alice",
        "shell": "/bin/sh",
        "groups": {"alice": 5001, "g6000": 6000},
    }
    assert claims["exp"] - claims["iat"] == LIFETIME_SECONDS  # type: ignore[operator]
    assert abs(time.time() - claims["iat"]) < 5  # type: ignore[operator]


def test_a_token_names_the_users_groups_and_home() -> None:
    ada = SlurmUser(
        name="ada",
        uid=5003,
        gid=100_000,
        group="staff",
        groups=(7001, 7002),
        group_names=("chem", "bio"),
        home="/h/ada",
    )

    claims = decode(make_mint(privileged=set()).user_token(ada))

    assert isinstance(claims["id"], dict)
    assert claims["id"]["groups"] == {"staff": 100_000, "chem": 7001, "bio": 7002}
    assert claims["id"]["dir"] == "/h/ada"


@pytest.mark.parametrize("name", ["root", "slurm", "nobody", "clusterra", "admin"])
def test_privileged_names_get_no_token(name: str) -> None:
    with pytest.raises(Unauthenticated, match="reserved"):
        make_mint(privileged={"admin"}).user_token(SlurmUser(name=name, uid=5001, gid=5001))


def test_the_operators_uid_gets_no_user_token() -> None:
    with pytest.raises(Unauthenticated, match="reserved"):
        make_mint(privileged=set()).user_token(SlurmUser(name="alice", uid=OPERATOR.uid, gid=5001))


def test_a_name_that_becomes_privileged_loses_its_token() -> None:
    mint = make_mint(privileged=set())
    mint.user_token(ALICE)
    mint.reserve_names({"alice"})
    with pytest.raises(Unauthenticated, match="reserved"):
        mint.user_token(ALICE)


@pytest.mark.parametrize(
    "user",
    [
        SlurmUser.model_construct(name="alice", uid=0, gid=5001, groups=()),
        SlurmUser.model_construct(name="alice", uid=999, gid=5001, groups=()),
        SlurmUser.model_construct(name="alice", uid=5001, gid=0, groups=()),
        SlurmUser(name="alice", uid=5001, gid=5001, groups=(0,)),
    ],
)
def test_system_ids_get_no_token(user: SlurmUser) -> None:
    with pytest.raises(Unauthenticated, match="below 1000"):
        make_mint(privileged=set()).user_token(user)


@pytest.mark.parametrize("other", [ALICE.model_copy(update={"uid": 5009}), BOB.model_copy(update={"uid": 5001})])
def test_a_name_is_bound_to_one_uid(other: SlurmUser) -> None:
    mint = make_mint(privileged=set())
    mint.user_token(ALICE)
    with pytest.raises(Unauthenticated, match="bound to another"):
        mint.user_token(other)
    mint.user_token(BOB)


def test_only_the_operator_gets_a_token_before_the_privileged_names_are_known() -> None:
    mint = make_mint()
    with pytest.raises(Unavailable, match="slurmdbd"):
        mint.user_token(ALICE)
    assert decode(mint.operator_token())["uid"] == OPERATOR.uid


def test_a_token_is_reused_until_half_of_its_lifetime(monkeypatch: pytest.MonkeyPatch) -> None:
    mint = make_mint(privileged=set())
    first = mint.user_token(ALICE)
    began = time.time()
    monkeypatch.setattr(time, "time", lambda: began + LIFETIME_SECONDS / 2 - 1)

    assert mint.user_token(ALICE) == first

    monkeypatch.setattr(time, "time", lambda: began + LIFETIME_SECONDS / 2 + 1)
    assert mint.user_token(ALICE) != first


def test_a_replaced_key_takes_effect_at_once() -> None:
    keys = [KEY]
    mint = make_mint(lambda: keys[0], privileged=set())
    mint.user_token(ALICE)
    keys[0] = b"n" * 64
    assert decode(mint.user_token(ALICE), keys[0])["uid"] == 5001


@given(
    st.builds(
        SlurmUser,
        name=st.sampled_from(["root", "eve", "slurm", "dba", "clusterra"]),
        uid=st.integers(1000, 70000),
        gid=st.integers(1000, 70000),
        groups=st.lists(st.integers(0, 70000)).map(tuple),
    )
)
def test_no_user_token_ever_carries_rights(user: SlurmUser) -> None:
    try:
        claims = decode(make_mint(privileged={"dba"}).user_token(user))
    except SlurmFailed:
        return
    identity = claims["id"]

    assert isinstance(identity, dict)
    assert identity["name"] == "eve"
    assert claims["uid"] not in (0, OPERATOR.uid)
    assert min(identity["groups"].values()) >= 1000


def test_bound_names_take_precedence_over_names_in_comments() -> None:
    names = UserNames()
    names.bind(ALICE)

    assert names.name(5001) == "alice"
    assert names.name(5001, "mallory") == "alice"
    assert names.name(7000, "alice") == "7000"
    assert names.name(7000, "carol") == "carol"
    assert names.name(7000) == "7000"
