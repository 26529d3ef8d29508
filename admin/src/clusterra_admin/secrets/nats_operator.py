"""NATS in operator mode: the accounts, the logins of central services, and those of edge-agents."""

import time
from dataclasses import dataclass

from clusterra_contracts.bus.permissions import (
    CENTRAL_SERVICES,
    Permissions,
    central_service,
    control_plane,
    edge_agent,
)
from clusterra_contracts.identity import ClusterRef

from clusterra_admin.secrets import declared, nats_jwt
from clusterra_admin.secrets.directory import Directory
from clusterra_admin.secrets.nats_jwt import Claims
from clusterra_admin.secrets.nkey import Key
from clusterra_admin.secrets.problem import SecretsProblem

ACCOUNT_NAME = "control-plane"
SYSTEM_NAME = "SYS"
ROLE = "edge"
AGENT_PAYLOAD_BYTES = 1024 * 1024
AGENT_SUBSCRIPTIONS = 100
DAY_SECONDS = 86_400
BRING_BACK = "bring the key back from where it is kept offline: what was made with it is still in use"

_RESOLVER = """\
# Made by clusterra-admin. nats-server's configuration includes it, and reads it again at a reload (SIGHUP).
operator: {operator}
system_account: {system_public}
resolver: MEMORY
resolver_preload: {{
  {system_public}: {system}
  {account_public}: {account}
}}
"""


def edge_permissions() -> Permissions:
    """The permissions of every edge-agent, with the tags of its login in place of tenant and cluster."""
    # Not validated, because the tags stand where ids will be.
    template = ClusterRef.model_construct(tenant="{{tag(tenant)}}", cluster="{{tag(cluster)}}")
    return edge_agent(template)


def resolver(operator: Key, system: Key, account: Key, edge_signing: Key) -> str:
    """The text of resolver.conf for a new installation, or after a change of permissions."""
    scope = nats_jwt.scoped_key(
        edge_signing.public,
        ROLE,
        edge_permissions(),
        max_payload=AGENT_PAYLOAD_BYTES,
        max_subscriptions=AGENT_SUBSCRIPTIONS,
    )
    of_account = nats_jwt.account_claims(
        ACCOUNT_NAME, account.public, jetstream=True, signing_keys=[scope], default_permissions={}
    )
    of_system = nats_jwt.account_claims(SYSTEM_NAME, system.public)
    return _RESOLVER.format(
        operator=nats_jwt.signed(nats_jwt.operator_claims(operator, system.public), operator),
        system_public=system.public,
        system=nats_jwt.signed(of_system, operator),
        account_public=account.public,
        account=nats_jwt.signed(of_account, operator),
    )


def central_credentials(name: str, account: Key) -> str:
    """The credentials of a central service, or of `admin`."""
    user = Key.new("U")
    permissions = {service: central_service(service) for service in CENTRAL_SERVICES} | {"admin": control_plane()}
    claims = nats_jwt.user_claims(name, user.public, permissions[name])
    return nats_jwt.credentials(nats_jwt.signed(claims, account), user)


def agent_credentials(directory: Directory, ref: ClusterRef, days: int) -> str:
    """New credentials of a cluster's edge-agent, valid for `days`. A renewal keeps the user, so that it can be revoked.

    Raises SecretsProblem. `ref` was validated when it was made: the server puts its ids into subjects as they are.
    """
    name = declared.agent_credentials(ref)
    signing = Key.read(directory.read(declared.EDGE_SIGNING, BRING_BACK), "A", declared.EDGE_SIGNING)
    account = _account(directory).claims
    if signing.public not in [scope["key"] for scope in account["nats"].get("signing_keys", [])]:
        raise SecretsProblem(f"{declared.EDGE_SIGNING} is not the key that {declared.RESOLVER} names", BRING_BACK)
    user = _user(directory, name) if directory.has(name) else Key.new("U")
    expires_at = int(time.time()) + days * DAY_SECONDS
    tags = (f"tenant:{ref.tenant}", f"cluster:{ref.cluster}")
    claims = nats_jwt.scoped_user_claims(f"edge-agent {ref}", user.public, account["sub"], tags, expires_at)
    return nats_jwt.credentials(nats_jwt.signed(claims, signing), user)


def revoked(directory: Directory, ref: ClusterRef) -> str:
    """The text of resolver.conf in which all logins of a cluster's edge-agent until now are revoked.

    Raises SecretsProblem.
    """
    operator = Key.read(directory.read(declared.OPERATOR, BRING_BACK), "O", declared.OPERATOR)
    user = _user(directory, declared.agent_credentials(ref))
    account = _account(directory)
    account.claims["nats"].setdefault("revocations", {})[user.public] = int(time.time())
    # Only this one changes: nats-server refuses a reload with another JWT of the operator.
    return directory.read(declared.RESOLVER).replace(account.jwt, nats_jwt.signed(account.claims, operator))


def _user(directory: Directory, name: str) -> Key:
    hint = "check --tenant and --cluster, or bring the file back: it names the user of the login"
    seeds = [line for line in directory.read(name, hint).splitlines() if line.startswith("SU")]
    if len(seeds) != 1:
        raise SecretsProblem(f"{name} holds no seed of a user", "remove it, and make it again")
    return Key.read(seeds[0], "U", name)


@dataclass(frozen=True)
class _Account:
    jwt: str
    claims: Claims


def _account(directory: Directory) -> _Account:
    """The account of the control plane in resolver.conf."""
    for jwt in nats_jwt.jwts_in(directory.read(declared.RESOLVER, "make it with `clusterra-admin secrets init`")):
        claims = nats_jwt.claims_of(jwt)
        if claims["nats"]["type"] == "account" and claims["name"] == ACCOUNT_NAME:
            return _Account(jwt, claims)
    raise SecretsProblem(f"{declared.RESOLVER} has no account {ACCOUNT_NAME}")
