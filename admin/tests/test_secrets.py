"""`clusterra-admin secrets`: what it makes, keeps, takes and refuses."""

import fcntl
import os
import stat
from pathlib import Path

import pytest
from admin_command import Answer, admin, admin_process
from clusterra_admin.secrets import nats_jwt
from clusterra_admin.secrets.directory import Directory
from clusterra_admin.secrets.nkey import Key
from clusterra_contracts.agent_http import is_key, new_key
from clusterra_contracts.identity import now
from clusterra_gateway.identity.access.operators import Operators
from clusterra_runtime.nats.credentials import login_of

CLUSTER = ("--tenant", "acme", "--cluster", "main")
PLACE = "clusters/acme/main"
EVERYTHING = {
    "session-key",
    *(f"nats/{name}.nk" for name in ("operator", "system", "account")),
    "nats/authority.key",
    "nats/resolver.conf",
    *(
        f"nats/{name}.creds"
        for name in ("gateway", "proxy", "scaler", "events", "admin", "authority", "authority-system")
    ),
    *(
        f"{PLACE}/{name}"
        for name in ("slurm.key", "jwt_hs256.key", "slurmdbd-password", "agent-key", "account.nk", "agent.creds")
    ),
}


def contents(directory: Path) -> dict[str, bytes]:
    return {str(each.relative_to(directory)): each.read_bytes() for each in directory.rglob("*") if each.is_file()}


async def init(directory: Path, *arguments: str, code: int = 0) -> Answer:
    return await admin("secrets", "init", str(directory), *CLUSTER, *arguments, code=code)


async def test_init_makes_everything_once(tmp_path: Path) -> None:
    first = await admin_process("secrets", "init", str(tmp_path / "secrets"), *CLUSTER, "--json")

    made = contents(tmp_path / "secrets")
    assert set(made) == EVERYTHING
    assert {each["name"]: each["outcome"] for each in first.json["secrets"]} == dict.fromkeys(EVERYTHING, "made")
    assert is_key(made[f"{PLACE}/agent-key"].decode())
    for name, content in made.items():
        mode = stat.S_IMODE((tmp_path / "secrets" / name).stat().st_mode)
        assert mode == (0o600 if name.endswith(".nk") else 0o640)
        assert content.strip() == content or name.endswith((".nk", ".creds", ".conf", "slurm.key"))
        assert content.decode(errors="replace").strip() not in first.out

    second = await init(tmp_path / "secrets", "--json")

    assert {each["outcome"] for each in second.json["secrets"]} == {"there"}
    assert contents(tmp_path / "secrets") == made


async def test_a_second_run_completes_what_is_missing(tmp_path: Path) -> None:
    await init(tmp_path)
    before = contents(tmp_path)
    (tmp_path / "nats/proxy.creds").unlink()
    (tmp_path / PLACE / "slurm.key").unlink()

    await init(tmp_path)

    after = contents(tmp_path)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"nats/proxy.creds", f"{PLACE}/slurm.key"}


async def test_a_second_cluster_needs_only_the_key_of_the_operator(tmp_path: Path) -> None:
    await init(tmp_path)
    gpu = ("--tenant", "acme", "--cluster", "gpu")
    for offline in ("system", "account"):
        (tmp_path / f"nats/{offline}.nk").unlink()
    operator = (tmp_path / "nats/operator.nk").rename(tmp_path / "kept")
    before = contents(tmp_path)

    refused = await admin("secrets", "init", str(tmp_path), *gpu, code=1)

    assert "operator.nk is missing, and signs the accounts in nats/resolver.conf" in refused.err
    assert contents(tmp_path) == before

    operator.rename(tmp_path / "nats/operator.nk")
    second = await admin("secrets", "init", str(tmp_path), *gpu, "--json")

    outcomes = {each["name"]: each["outcome"] for each in second.json["secrets"]}
    assert outcomes["nats/system.nk"] == outcomes["nats/account.nk"] == "not needed"
    assert outcomes["clusters/acme/gpu/agent.creds"] == outcomes["clusters/acme/gpu/account.nk"] == "made"
    assert outcomes["nats/resolver.conf"] == "updated"


async def test_keys_may_stay_offline_when_nothing_is_to_be_made(tmp_path: Path) -> None:
    await init(tmp_path)
    for key in tmp_path.rglob("*.nk"):
        key.unlink()
    before = contents(tmp_path)

    again = await init(tmp_path, "--json")

    assert {each["outcome"] for each in again.json["secrets"]} == {"there", "not needed"}
    assert contents(tmp_path) == before


async def test_the_account_of_a_cluster_is_not_made_anew_while_servers_know_it(tmp_path: Path) -> None:
    await init(tmp_path)
    (tmp_path / PLACE / "account.nk").unlink()
    (tmp_path / PLACE / "agent.creds").unlink()
    before = contents(tmp_path)

    answer = await init(tmp_path, code=1)

    assert "account.nk is missing, and nats/resolver.conf was made with it" in answer.err
    assert contents(tmp_path) == before


async def test_a_login_of_an_earlier_release_is_replaced_by_one_of_the_clusters_account(tmp_path: Path) -> None:
    await init(tmp_path)
    account = Key((tmp_path / "nats/account.nk").read_text().strip())
    operator = Key((tmp_path / "nats/operator.nk").read_text().strip())
    resolver, login = tmp_path / "nats/resolver.conf", tmp_path / PLACE / "agent.creds"
    signing = Key.new("A")
    (tmp_path / PLACE / "account.nk").unlink()
    central = nats_jwt.account_claims("control-plane", account.public, {}, signing_keys=[signing.public])
    kept = [jwt for jwt in nats_jwt.jwts_in(resolver.read_text()) if nats_jwt.claims_of(jwt)["name"][:5] != "edge "]
    jwts = [jwt for jwt in kept if nats_jwt.claims_of(jwt)["sub"] != account.public]
    resolver.write_text("\n".join([*jwts, nats_jwt.signed(central, operator)]))
    old = nats_jwt.jwts_in(login.read_text())[0]
    login.write_text(login.read_text().replace(old, nats_jwt.signed(nats_jwt.claims_of(old), signing)))

    upgraded = await init(tmp_path, "--json")

    outcomes = {each["name"]: each["outcome"] for each in upgraded.json["secrets"] if each["outcome"] != "there"}
    assert outcomes == {
        f"{PLACE}/account.nk": "made",
        "nats/resolver.conf": "updated",
        f"{PLACE}/agent.creds": "replaced",
    }
    claims = {each["name"]: each for each in map(nats_jwt.claims_of, nats_jwt.jwts_in(resolver.read_text()))}
    assert "signing_keys" not in claims["control-plane"]["nats"]
    (new,) = nats_jwt.jwts_in(login.read_text())
    assert nats_jwt.claims_of(new)["iss"] == claims["edge acme/main"]["sub"]
    assert set(jwts) <= set(nats_jwt.jwts_in(resolver.read_text()))


async def test_a_missing_key_is_not_made_anew_while_its_work_is_in_use(tmp_path: Path) -> None:
    await init(tmp_path)
    (tmp_path / "nats/account.nk").unlink()
    (tmp_path / "nats/events.creds").unlink()
    before = contents(tmp_path)

    answer = await init(tmp_path, code=1)

    assert "account.nk is missing, and nats/resolver.conf was made with it" in answer.err
    assert "bring the key back" in answer.err
    assert contents(tmp_path) == before


async def test_a_replaced_key_needs_what_it_signed_replaced_too(tmp_path: Path) -> None:
    await init(tmp_path)

    alone = await init(tmp_path, "--replace", f"{PLACE}/account.nk", code=1)

    assert "name them with --replace too" in alone.err

    together = (f"{PLACE}/account.nk", f"{PLACE}/agent.creds")
    replaced = await init(tmp_path, *(each for name in together for each in ("--replace", name)), "--json")

    outcomes = {each["name"] for each in replaced.json["secrets"] if each["outcome"] == "replaced"}
    assert outcomes == set(together)
    assert {each["name"] for each in replaced.json["secrets"] if each["outcome"] == "updated"} == {"nats/resolver.conf"}


async def test_secrets_may_be_brought(tmp_path: Path) -> None:
    own = {
        "session-key": b"a session key that has at least 32 bytes",
        "nats/operator.nk": Key.new("O").seed.encode(),
        f"{PLACE}/agent-key": new_key().encode(),
        f"{PLACE}/slurmdbd-password": b"of our own database",
    }
    arguments = []
    for number, (name, content) in enumerate(own.items()):
        (tmp_path / str(number)).write_bytes(content)
        arguments += ["--bring", f"{name}={tmp_path / str(number)}"]

    await init(tmp_path / "secrets", *arguments)

    made = contents(tmp_path / "secrets")
    assert {name: made[name] for name in own} == own
    assert set(made) == EVERYTHING

    again = await init(tmp_path / "secrets", *arguments, code=1)

    assert "session-key is there already" in again.err


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("session-key", b"short", "does not hold a valid session-key"),
        ("nats/operator.nk", b"SOgarbage", "does not hold a valid nats/operator.nk"),
        # A fixed id: the processes of the suite must collect the same names.
        pytest.param(
            "nats/operator.nk",
            Key.new("O").seed[:-3].encode() + b"AAA",
            "does not hold a valid nats/operator.nk",
            id="wrong-checksum",
        ),
        ("nats/operator.nk", b"SAnot-an-operator", "does not hold a valid nats/operator.nk"),
        (f"{PLACE}/agent-key", b"mine", f"does not hold a valid {PLACE}/agent-key"),
        ("nats/gateway.creds", b"x", "nats/gateway.creds cannot be brought"),
        ("password", b"x", "there is no secret password"),
    ],
)
async def test_what_cannot_be_a_secret_is_refused_before_anything_is_written(
    name: str, content: bytes, error: str, tmp_path: Path
) -> None:
    (tmp_path / "brought").write_bytes(content)

    answer = await init(tmp_path / "secrets", "--bring", f"{name}={tmp_path / 'brought'}", code=1)

    assert error in answer.err
    assert contents(tmp_path / "secrets") == {}


async def test_a_file_that_others_can_read_is_restricted_and_told(tmp_path: Path) -> None:
    await init(tmp_path)
    (tmp_path / "session-key").chmod(0o666)
    (tmp_path / "nats/operator.nk").chmod(0o400)
    before = contents(tmp_path)

    listed = await admin("secrets", "list", str(tmp_path), *CLUSTER)
    again = await init(tmp_path, "--json")

    assert "mode 0666, which `init` restricts to 0640" in listed.out
    found = {each["name"]: each for each in again.json["secrets"]}
    assert found["session-key"]["outcome"] == "restricted"
    assert (found["session-key"]["former_mode"], found["session-key"]["mode"]) == ("0666", "0640")
    assert (found["nats/operator.nk"]["outcome"], found["nats/operator.nk"]["mode"]) == ("there", "0400")
    assert stat.S_IMODE((tmp_path / "session-key").stat().st_mode) == 0o640
    assert contents(tmp_path) == before


async def test_what_a_killed_run_left_is_removed(tmp_path: Path) -> None:
    # In a container every run has the same process id.
    (tmp_path / "nats").mkdir()
    for left in (".session-key.1.part", "nats/.operator.nk.7.part"):
        (tmp_path / left).write_text("half a secret")

    await init(tmp_path)

    assert set(contents(tmp_path)) == EVERYTHING


def test_the_part_of_a_run_that_writes_stays(tmp_path: Path) -> None:
    writing, starting = Directory(tmp_path), Directory(tmp_path)
    part = tmp_path / ".session-key.0123456789abcdef.part"

    with writing._locked(fcntl.LOCK_SH):
        part.write_text("being written")
        starting.remove_parts()

        assert part.exists()

    starting.remove_parts()

    assert not part.exists()


def test_the_part_of_a_killed_process_does_not_block_its_namesake(tmp_path: Path) -> None:
    (tmp_path / f".session-key.{os.getpid()}.part").write_text("half a secret")

    Directory(tmp_path).write("session-key", b"x" * 40, 0o640)

    assert (tmp_path / "session-key").read_bytes() == b"x" * 40


@pytest.mark.parametrize(("tenant", "cluster"), [("*", "main"), ("acme", ">"), ("acme.x", "main"), ("ac me", "main")])
async def test_an_id_with_a_wildcard_gets_no_login(tenant: str, cluster: str, tmp_path: Path) -> None:
    answer = await admin("secrets", "init", str(tmp_path), "--tenant", tenant, "--cluster", cluster, code=1)

    assert "must be ids" in answer.err
    assert contents(tmp_path) == {}


async def test_list_says_what_is_there_and_what_may_be_brought(tmp_path: Path) -> None:
    (tmp_path / "session-key").write_text("x" * 40)

    listed = await admin("secrets", "list", str(tmp_path), *CLUSTER, "--json")

    found = {each["name"]: each for each in listed.json["secrets"]}
    assert set(found) == EVERYTHING
    assert [name for name, each in found.items() if each["there"]] == ["session-key"]
    assert found[f"{PLACE}/slurm.key"]["may_be_brought"]
    assert not found["nats/resolver.conf"]["may_be_brought"]


async def test_an_operators_token_is_known_by_the_entry_that_is_printed_with_it(tmp_path: Path) -> None:
    made = await admin("secrets", "operator-token", "anna")

    token, _, entry = made.out.removeprefix("token: ").partition("\n")
    file = tmp_path / "operators.yaml"
    file.write_text("operators:\n" + entry.partition("\n")[2])
    operator = await Operators(file).operator(token)
    assert (operator.name, operator.scopes) == ("anna", ("tenants:read", "tenants:write"))
    assert token not in entry
    assert "tenants:write" not in (await admin("secrets", "operator-token", "rita", "--read-only")).out
    assert "must" in (await admin("secrets", "operator-token", "No One", code=1)).err


def ends_in_days(file: Path) -> float:
    """For how many days a login is valid."""
    _, ends_at = login_of(file)
    assert ends_at is not None
    return (ends_at - now()).total_seconds() / 86_400


async def test_the_login_of_a_central_service_ends_and_is_renewed_in_time(tmp_path: Path) -> None:
    proxy, gateway = (tmp_path / "nats" / f"{name}.creds" for name in ("proxy", "gateway"))
    await admin("secrets", "init", str(tmp_path))
    await admin("secrets", "init", str(tmp_path), "--central-days", "59", "--replace", "nats/proxy.creds")
    ending, lasting = proxy.read_bytes(), gateway.read_bytes()
    before = ends_in_days(proxy)

    renewed = await admin("secrets", "init", str(tmp_path), "--json")

    outcomes = {each["name"]: each["outcome"] for each in renewed.json["secrets"]}
    assert (outcomes["nats/proxy.creds"], outcomes["nats/gateway.creds"]) == ("replaced", "there")
    assert 58 < before < 59
    assert 364 < ends_in_days(proxy) < 365
    assert proxy.read_bytes() != ending
    assert gateway.read_bytes() == lasting


async def test_a_login_is_not_renewed_without_the_key_that_is_kept_offline(tmp_path: Path) -> None:
    await admin("secrets", "init", str(tmp_path), "--central-days", "9")
    login = (tmp_path / "nats" / "proxy.creds").read_bytes()
    (tmp_path / "nats" / "account.nk").unlink()

    await admin("secrets", "init", str(tmp_path))

    assert (tmp_path / "nats" / "proxy.creds").read_bytes() == login
