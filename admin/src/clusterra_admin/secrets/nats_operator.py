"""NATS in operator mode: resolver.conf, and the logins of central services and of edge-agents, from their keys."""

import time
from dataclasses import replace

from clusterra_contracts.bus.permissions import (
    CENTRAL_SERVICES,
    authority,
    authority_in_system_account,
    central_service,
    control_plane,
    edge_agent,
)
from clusterra_contracts.identity import ClusterRef

from clusterra_admin.secrets import declared, nats_jwt
from clusterra_admin.secrets.directory import Directory
from clusterra_admin.secrets.nats_accounts import (
    AGENT_PAYLOAD_BYTES,
    AGENT_SUBSCRIPTIONS,
    Account,
    Accounts,
)
from clusterra_admin.secrets.nkey import Key
from clusterra_admin.secrets.problem import SecretsProblem

DAY_SECONDS = 86_400
RENEW_DAYS = 60
"""A login of a central service is renewed when less of its time is left. `doctor` warns when 21 days are left."""
BRING_BACK = "bring the key back from where it is kept offline: what was made with it is still in use"
_MAKE_IT = "make it with `clusterra-admin secrets init`"


def resolver(directory: Directory, ref: ClusterRef | None) -> str:
    """The text of resolver.conf with the account of `ref`, from the keys in the directory.

    Clusters and revocations of the existing one stay; if it is missing, the clusters are those with a key.
    Raises SecretsProblem.
    """
    system = _key(directory, declared.SYSTEM, "A").public
    central = _key(directory, declared.ACCOUNT, "A").public
    if directory.has(declared.RESOLVER):
        known = _accounts(directory)
        kept = known.central if known.central.public == central else Account(central)
        accounts = Accounts(system, kept, known.edges, known.jwts, _authority(directory))
    else:
        accounts = Accounts(system, Account(central), authority=_authority(directory))
        for each in _clusters_with_a_key(directory):
            accounts = _with_cluster(directory, accounts, each)
    return _with_cluster(directory, accounts, ref).text(_key(directory, declared.OPERATOR, "O"))


def is_current(directory: Directory, ref: ClusterRef | None) -> bool:
    """Whether the existing resolver.conf is what this release makes, and has the account of `ref`."""
    known = _accounts(directory)
    same = known.current() and known.authority == _authority(directory)
    return same and _with_cluster(directory, known, ref).edges == known.edges


def stays(directory: Directory, ref: ClusterRef | None) -> bool:
    """Whether the existing resolver.conf needs no change, also not for an account whose key is still to be made."""
    if not directory.has(declared.AUTHORITY) or (ref is not None and ref not in _accounts(directory).edges):
        return False
    return is_current(directory, ref)


def updated(directory: Directory, ref: ClusterRef | None) -> str:
    """The existing resolver.conf as this release makes it, with the account of `ref`; it needs only the operator's key.

    Raises SecretsProblem.
    """
    accounts = replace(_accounts(directory), authority=_authority(directory))
    return _with_cluster(directory, accounts, ref).text(_key(directory, declared.OPERATOR, "O"))


def revoked(directory: Directory, ref: ClusterRef) -> str:
    """The text of resolver.conf in which all logins of a cluster's edge-agent until now are revoked.

    Raises SecretsProblem.
    """
    return _accounts(directory).revoked(ref).text(_key(directory, declared.OPERATOR, "O"))


def knows_cluster(directory: Directory, ref: ClusterRef) -> bool:
    """Whether resolver.conf has an account of the cluster. Raises SecretsProblem."""
    return directory.has(declared.RESOLVER) and ref in _accounts(directory).edges


def central_credentials(name: str, account: Key, days: int) -> str:
    """The credentials of a central service, of `admin` or of the authority, valid for `days`."""
    user = Key.new("U")
    permissions = {service: central_service(service) for service in CENTRAL_SERVICES} | {
        "admin": control_plane(),
        "authority": authority(),
        "authority-system": authority_in_system_account(),
    }
    claims = nats_jwt.user_claims(name, user.public, permissions[name], {}, int(time.time()) + days * DAY_SECONDS)
    return nats_jwt.credentials(nats_jwt.signed(claims, account), user)


def ends_soon(directory: Directory, name: str) -> bool:
    """Whether a login ends within RENEW_DAYS. One that never ends, as releases before made them, does not."""
    ends = [nats_jwt.claims_of(jwt).get("exp") for jwt in nats_jwt.jwts_in(directory.read(name))]
    return any(end is not None and end < time.time() + RENEW_DAYS * DAY_SECONDS for end in ends)


def agent_credentials(directory: Directory, ref: ClusterRef, days: int) -> str:
    """New credentials of a cluster's edge-agent, valid for `days`. A renewal keeps the user.

    Raises SecretsProblem. `ref` was validated when it was made: its ids become parts of subjects as they are.
    """
    name, account_name = declared.agent_credentials(ref), declared.cluster_account(ref)
    account = _key(directory, account_name, "A")
    known = _accounts(directory).edges.get(ref)
    if known is None or known.public != account.public:
        raise SecretsProblem(f"{account_name} is not the key that {declared.RESOLVER} names for {ref}", _MAKE_IT)
    user = _user(directory, name) if directory.has(name) else Key.new("U")
    limits = {"subs": AGENT_SUBSCRIPTIONS, "payload": AGENT_PAYLOAD_BYTES}
    expires_at = int(time.time()) + days * DAY_SECONDS
    claims = nats_jwt.user_claims(f"edge-agent {ref}", user.public, edge_agent(ref), limits, expires_at)
    return nats_jwt.credentials(nats_jwt.signed(claims, account, known.revoked_at), user)


def is_of_its_account(directory: Directory, ref: ClusterRef) -> bool:
    """Whether the existing credentials of a cluster's edge-agent are those of the cluster's account.

    Those that the account of the control plane has signed, as earlier releases did, are not.
    """
    known = _accounts(directory).edges.get(ref) if directory.has(declared.RESOLVER) else None
    jwts = nats_jwt.jwts_in(directory.read(declared.agent_credentials(ref)))
    return known is not None and len(jwts) == 1 and nats_jwt.claims_of(jwts[0])["iss"] == known.public


def _with_cluster(directory: Directory, accounts: Accounts, ref: ClusterRef | None) -> Accounts:
    if ref is None:
        return accounts
    name = declared.cluster_account(ref)
    if not directory.has(name) and ref in accounts.edges:
        return accounts
    return accounts.with_cluster(ref, _key(directory, name, "A").public)


def _clusters_with_a_key(directory: Directory) -> list[ClusterRef]:
    files = sorted(directory.path.glob("clusters/*/*/account.nk"))
    return [ClusterRef(tenant=each.parent.parent.name, cluster=each.parent.name) for each in files]


def _key(directory: Directory, name: str, kind: str) -> Key:
    return Key.read(directory.read(name, BRING_BACK), kind, name)


def _accounts(directory: Directory) -> Accounts:
    return Accounts.read(directory.read(declared.RESOLVER, _MAKE_IT))


def _authority(directory: Directory) -> str:
    return _key(directory, declared.AUTHORITY, "O").public


def _user(directory: Directory, name: str) -> Key:
    hint = "check --tenant and --cluster, or bring the file back: it names the user of the login"
    seeds = [line for line in directory.read(name, hint).splitlines() if line.startswith("SU")]
    if len(seeds) != 1:
        raise SecretsProblem(f"{name} holds no seed of a user", "remove it, and make it again")
    return Key.read(seeds[0], "U", name)
