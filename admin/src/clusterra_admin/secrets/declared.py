"""Every secret of an installation: what it is for, and whether it may be brought."""

from collections.abc import Callable
from dataclasses import dataclass

from clusterra_contracts.agent_http import is_key
from clusterra_contracts.bus.permissions import CENTRAL_SERVICES
from clusterra_contracts.identity import ClusterRef

from clusterra_admin.secrets.nkey import Key
from clusterra_admin.secrets.problem import SecretsProblem

OFFLINE = 0o600
"""For keys that only make other secrets."""
MOUNTED = 0o640
"""For secrets that services read, which may run as another user of the file's group."""

OPERATOR, SYSTEM, ACCOUNT = "nats/operator.nk", "nats/system.nk", "nats/account.nk"
AUTHORITY = "nats/authority.key"
RESOLVER = "nats/resolver.conf"
ADMIN_CREDENTIALS = "nats/admin.creds"
AUTHORITY_CREDENTIALS, AUTHORITY_SYSTEM_CREDENTIALS = "nats/authority.creds", "nats/authority-system.creds"
MIN_SESSION_KEY_BYTES = 32


@dataclass(frozen=True)
class Declared:
    """One secret. `accepts` says whether a brought value is one; None for a secret that cannot be brought."""

    name: str
    purpose: str
    mode: int = MOUNTED
    accepts: Callable[[bytes], bool] | None = None
    made_from: tuple[str, ...] = ()
    """The keys that a derived secret is signed with."""


def _seed(kind: str) -> Callable[[bytes], bool]:
    def accepts(content: bytes) -> bool:
        try:
            Key.read(content.decode(errors="replace"), kind, "")
        except SecretsProblem:
            return False
        return True

    return accepts


INSTALLATION: tuple[Declared, ...] = (
    Declared(
        "session-key",
        "signs the sessions of browsers (CLUSTERRA_SESSION_KEY_FILE of the gateway); a new one signs everyone out",
        accepts=lambda content: len(content.strip()) >= MIN_SESSION_KEY_BYTES,
    ),
    Declared(OPERATOR, "the operator of NATS: signs accounts. Keep it offline", OFFLINE, _seed("O")),
    Declared(SYSTEM, "the system account of NATS. Keep it offline", OFFLINE, _seed("A")),
    Declared(ACCOUNT, "the account of the control plane: signs central services. Keep it offline", OFFLINE, _seed("A")),
    Declared(
        AUTHORITY,
        "signs accounts and logins of integrations, for `clusterra-admin authority` alone; a new one ends them all",
        accepts=_seed("O"),
    ),
    Declared(
        RESOLVER,
        "operator and accounts, which nats-server's configuration includes",
        made_from=(OPERATOR, SYSTEM, ACCOUNT),
    ),
    *(
        Declared(f"nats/{service}.creds", f"the login of the service {service} at NATS", made_from=(ACCOUNT,))
        for service in CENTRAL_SERVICES
    ),
    Declared(ADMIN_CREDENTIALS, "the login of clusterra-admin at NATS, without limits", made_from=(ACCOUNT,)),
    Declared(AUTHORITY_CREDENTIALS, "the login of the authority at NATS", made_from=(ACCOUNT,)),
    Declared(
        AUTHORITY_SYSTEM_CREDENTIALS, "the login of the authority in the system account of NATS", made_from=(SYSTEM,)
    ),
)


def of_cluster(ref: ClusterRef) -> tuple[Declared, ...]:
    """The secrets of one cluster."""
    place = cluster_place(ref)
    return (
        Declared(
            f"{place}/slurm.key",
            "auth/slurm: all daemons of the cluster and its workers share it",
            accepts=lambda content: len(content) >= 32,
        ),
        Declared(
            f"{place}/jwt_hs256.key",
            "signs the tokens that slurmrestd accepts; slurmctld, slurmdbd and the proxy read it",
            accepts=lambda content: len(content.strip()) >= 32,
        ),
        Declared(
            f"{place}/slurmdbd-password",
            "slurmdbd's login at its database",
            accepts=lambda content: bool(content.strip()),
        ),
        Declared(
            f"{place}/agent-key",
            "the edge-agent's key at the gateway, for heartbeats over HTTP",
            accepts=lambda content: is_key(content.decode(errors="replace").strip()),
        ),
        Declared(
            cluster_account(ref),
            "the cluster's account at NATS: signs its edge-agent. Keep it offline",
            OFFLINE,
            _seed("A"),
        ),
        Declared(
            agent_credentials(ref), "the edge-agent's login at NATS; it expires", made_from=(cluster_account(ref),)
        ),
    )


def cluster_place(ref: ClusterRef) -> str:
    """The folder of a cluster's secrets."""
    return f"clusters/{ref.tenant}/{ref.cluster}"


def cluster_account(ref: ClusterRef) -> str:
    """The key of a cluster's account at NATS."""
    return f"{cluster_place(ref)}/account.nk"


def agent_credentials(ref: ClusterRef) -> str:
    """The credentials of a cluster's edge-agent."""
    return f"{cluster_place(ref)}/agent.creds"
