"""The process of the authority: two connections to NATS, and no other input."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from clusterra_contracts.rpc.bus_logins import RevokeBusLogins, SignBusLogin
from clusterra_runtime.nats import bus, rpc
from clusterra_runtime.service import Service
from clusterra_runtime.settings import ServiceSettings

from clusterra_admin.authority.authority import Authority
from clusterra_admin.authority.operator_accounts import OperatorAccounts
from clusterra_admin.authority.servers import AccountServers
from clusterra_admin.secrets import declared, nats_jwt
from clusterra_admin.secrets.nkey import Key
from clusterra_admin.secrets.problem import SecretsProblem

NAME = "authority"
CONCURRENCY = 16


class AuthoritySettings(ServiceSettings):
    """The settings of the authority. `nats_credentials_file` is its login in the account of the control plane."""

    nats_credentials_file: Path
    nats_system_credentials_file: Path
    """Its login in the system account of NATS, `nats/authority-system.creds`."""
    authority_key_file: Path
    """Its key, `nats/authority.key`, which the operator of NATS has named. Nobody else has it."""
    resolver_file: Path | None = None
    """`nats/resolver.conf`: changed accounts are sent to the servers. None: the servers restart for each change."""


@asynccontextmanager
async def app(service: Service) -> AsyncIterator[None]:
    """Wires the process; `service.settings` must be AuthoritySettings. Raises SecretsProblem."""
    settings = service.settings
    assert isinstance(settings, AuthoritySettings)  # noqa: S101 - the command and the tests give no other settings
    key = Key.read(_text(settings.authority_key_file), "O", declared.AUTHORITY)
    (login,) = nats_jwt.jwts_in(_text(settings.nats_credentials_file))
    central = nats_jwt.claims_of(login)["iss"]
    in_system = settings.model_copy(update={"nats_credentials_file": settings.nats_system_credentials_file})
    system = await bus.connect(in_system, f"{NAME}-system", inbox_prefix=f"_INBOX_{NAME}")
    client = await bus.connect(settings, NAME)
    service.ready_when("nats", lambda: client.is_connected and system.is_connected)
    try:
        servers = AccountServers(system)
        authority = Authority(key, central, servers)
        if settings.resolver_file is not None:
            service.background("accounts", OperatorAccounts(servers, settings.resolver_file).run)
        # `secret`: what is unreadable becomes no dead letter, for which this login has no permission.
        serve = partial(rpc.serve_tenant, queue=NAME, concurrency=CONCURRENCY, secret=True)
        await serve(client, "bus-login.*", SignBusLogin, authority.sign)
        await serve(client, "bus-revocation.*", RevokeBusLogins, authority.revoke)
        yield
    finally:
        await bus.close(client)
        await bus.close(system)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretsProblem(f"{path} cannot be read ({type(error).__name__})") from None
