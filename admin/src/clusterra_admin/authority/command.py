"""`clusterra-admin authority`."""

from clusterra_admin.terminal import failing_on


def authority() -> None:
    """Run the authority: it signs and revokes the logins of integrations at NATS, until it gets a signal.

    It listens on no port but that of its health, and needs no table. `CLUSTERRA_AUTHORITY_KEY_FILE` names its key
    (nats/authority.key), `CLUSTERRA_NATS_CREDENTIALS_FILE` and `CLUSTERRA_NATS_SYSTEM_CREDENTIALS_FILE`
    its logins (nats/authority.creds, nats/authority-system.creds), `CLUSTERRA_RESOLVER_FILE` the accounts that the
    operator has signed (nats/resolver.conf): it sends them to the servers when they change. One process is enough;
    while it is away, logins that exist go on.
    """
    from clusterra_runtime.service import run
    from pydantic import ValidationError

    from clusterra_admin.authority.app import NAME, AuthoritySettings, app

    with failing_on(ValidationError):
        settings = AuthoritySettings()
    run(NAME, settings, app)
