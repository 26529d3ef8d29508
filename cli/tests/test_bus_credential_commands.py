"""`clusterra bus-credentials` as processes, with a real gateway and a stand-in for the authority."""

from datetime import timedelta
from pathlib import Path

from clusterra_contracts.identity import TenantRef, now
from clusterra_contracts.rpc.bus_logins import BusLogin, RevokeBusLogins, SignBusLogin
from clusterra_contracts.rpc.reply import Done
from clusterra_runtime.nats.rpc import serve_tenant
from command_line import CommandLine
from gateway_world import World
from people_world import make_token

KEY = "U" + "A" * 55


async def test_a_bus_credential_from_its_creation_to_its_end(
    world: World, command: CommandLine, tmp_path: Path
) -> None:
    token = await make_token(await world.login("boss@acme.example"))
    boss = command.having(CLUSTERRA_TOKEN=token["token"])
    revoked = list[str]()

    async def sign(ref: TenantRef, request: SignBusLogin) -> BusLogin:
        expires_at = now() + timedelta(seconds=request.lifetime_seconds)
        return BusLogin(jwt="signed", account="A" * 56, subject=f"event.{ref.tenant}.>", expires_at=expires_at)

    async def revoke(_ref: TenantRef, request: RevokeBusLogins) -> Done:
        revoked.extend(request.public_keys)
        return Done()

    served = [
        await serve_tenant(world.client, "bus-login.acme", SignBusLogin, sign),
        await serve_tenant(world.client, "bus-revocation.acme", RevokeBusLogins, revoke),
    ]
    created = await boss("bus-credentials", "create", KEY, "--name=billing", "--cluster=main")
    listed, ids = await boss("bus-credentials"), await boss("bus-credentials", "list", "--quiet")
    credential = ids.out.strip()
    file = tmp_path / "login.jwt"
    renewed = await boss("bus-credentials", "renew", credential, "--hours=1", f"--out={file}")
    gone = await boss("bus-credentials", "revoke", credential)
    for each in served:
        await each.unsubscribe()

    assert (created.code, created.out) == (0, "signed\n"), created
    assert f"bus credential {credential} subscribes event.acme.main.>" in created.err
    assert all(text in listed.out for text in (credential, "billing", "event.acme.main.>", KEY)), listed
    assert (renewed.code, file.read_text()) == (0, "signed\n"), renewed
    assert gone.out == f"bus credential {credential} is revoked\n", gone
    assert revoked == [KEY]
    assert (await boss("bus-credentials", "list", "--quiet")).out == ""
