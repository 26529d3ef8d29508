"""resolver.conf: the operator of NATS, the accounts that it has signed, and what they share.

The account of the control plane has JetStream. Each cluster has an account of its own for its edge-agent. The accounts
of integrations are not here: the authority makes them, with the key that the operator's JWT names (`authority`).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from clusterra_contracts.bus import sharing
from clusterra_contracts.bus.topology import MAX_MESSAGE_BYTES
from clusterra_contracts.identity import ClusterRef
from pydantic import ValidationError

from clusterra_admin.secrets import declared, nats_jwt
from clusterra_admin.secrets.nats_jwt import UNLIMITED, Claims, shared
from clusterra_admin.secrets.nkey import Key
from clusterra_admin.secrets.problem import SecretsProblem

CENTRAL_NAME = "control-plane"
SYSTEM_NAME = "SYS"
AGENT_PAYLOAD_BYTES = MAX_MESSAGE_BYTES
AGENT_SUBSCRIPTIONS = 100
AGENT_CONNECTIONS = 20
"""A cluster's agents: one that leads, one that waits, and both again during an upgrade; the rest is room."""

_CENTRAL_LIMITS = {
    # max_file_store of the servers is the bound: one with less than an account's limit gives it no JetStream.
    **dict.fromkeys(("disk_storage", "mem_storage", "streams", "consumer"), UNLIMITED),
}
_EDGE_LIMITS = {
    "conn": AGENT_CONNECTIONS,
    "leaf": 0,
    "payload": AGENT_PAYLOAD_BYTES,
    "subs": AGENT_CONNECTIONS * AGENT_SUBSCRIPTIONS,
}
_HEAD = """\
# Made by clusterra-admin. nats-server's configuration includes it, and names the directory of accounts
# (`resolver`). Newer ones of these are copied into it at a start, and at any time by `clusterra-admin authority`.
"""
_EDGE_PREFIX = "edge "
_EVERY_USER = "*"

type Revocations = Mapping[str, int]


@dataclass(frozen=True)
class Account:
    """One account: its public key, and the times up to which logins of its users are revoked."""

    public: str
    revocations: Revocations = field(default_factory=dict)

    @property
    def revoked_at(self) -> int:
        """The last time when all logins were revoked, in Unix seconds; 0 before the first one."""
        return self.revocations.get(_EVERY_USER, 0)


@dataclass(frozen=True)
class Accounts:
    """The operator's accounts. `jwts` are those that a configuration had, by public key; unchanged ones are kept."""

    system: str
    central: Account
    edges: Mapping[ClusterRef, Account] = field(default_factory=dict)
    jwts: Mapping[str, str] = field(default_factory=dict)
    authority: str = ""
    """The public key of the authority, which signs the accounts of integrations; they are in no configuration."""

    @classmethod
    def read(cls, text: str) -> "Accounts":
        """The accounts of resolver.conf. Raises SecretsProblem."""
        system, authority, central, edges, jwts = "", "", None, {}, {}
        for jwt in nats_jwt.jwts_in(text):
            claims = nats_jwt.claims_of(jwt)
            jwts[claims["sub"]] = jwt
            if claims["nats"]["type"] == "operator":
                system = claims["nats"]["system_account"]
                authority = next(iter(claims["nats"].get("signing_keys", [])), "")
                continue
            account = Account(claims["sub"], claims["nats"].get("revocations", {}))
            if claims["name"] == CENTRAL_NAME:
                central = account
            elif claims["name"].startswith(_EDGE_PREFIX):
                edges[_cluster(claims["name"])] = account
        if central is None or not system:
            raise SecretsProblem(f"{declared.RESOLVER} has no operator, or no account {CENTRAL_NAME}")
        return cls(system, central, edges, jwts, authority)

    def with_cluster(self, ref: ClusterRef, public: str) -> "Accounts":
        """These accounts and the one of a cluster. Its revocations stay as long as its key is the same."""
        known = self.edges.get(ref)
        account = known if known is not None and known.public == public else Account(public)
        return replace(self, edges={**self.edges, ref: account})

    def revoked(self, ref: ClusterRef) -> "Accounts":
        """All logins of a cluster until now are revoked, by whichever key. Raises SecretsProblem."""
        if (known := self.edges.get(ref)) is None:
            raise SecretsProblem(f"{declared.RESOLVER} has no account of {ref}", "make it with `secrets init`")
        # The login that replaced one revoked in this second is issued a second later: see nats_jwt.signed.
        until = max(int(time.time()), known.revoked_at + 1)
        revocations = {**known.revocations, _EVERY_USER: until}
        return replace(self, edges={**self.edges, ref: Account(known.public, revocations)})

    def current(self) -> bool:
        """Whether all JWTs are those that this release makes."""
        return all(_same(self.jwts.get(claims["sub"]), claims) for claims in self._account_claims())

    def text(self, operator: Key) -> str:
        """The text of resolver.conf. A JWT that says the same stays: a reload refuses another one of the operator."""
        of_operator = self._signed(nats_jwt.operator_claims(operator, self.system, self.authority), operator)
        accounts = "".join(
            f"  # {claims['name']}\n  {claims['sub']}: {self._signed(claims, operator)}\n"
            for claims in self._account_claims()
        )
        return f"{_HEAD}operator: {of_operator}\nsystem_account: {self.system}\nresolver_preload: {{\n{accounts}}}\n"

    def _signed(self, claims: Claims, operator: Key) -> str:
        known = self.jwts.get(claims["sub"])
        if known is not None and _same(known, claims) and nats_jwt.claims_of(known)["iss"] == operator.public:
            return known
        # The servers keep the JWT with the later time.
        return nats_jwt.signed(claims, operator, 0 if known is None else nats_jwt.claims_of(known)["iat"])

    def _account_claims(self) -> list[Claims]:
        edges = sorted(self.edges.items(), key=lambda each: str(each[0]))
        return [
            nats_jwt.account_claims(SYSTEM_NAME, self.system, {}),
            self._central(),
            *(self._edge(ref, account) for ref, account in edges),
        ]

    def _central(self) -> Claims:
        exports = [shared("service", each) for each in sharing.shared_services()]
        exports += [shared("stream", each) for each in sharing.shared_streams()]
        imports = [
            shared("service", each, account.public)
            for ref, account in sorted(self.edges.items(), key=lambda each: str(each[0]))
            for each in sharing.services_of_agent(ref)
        ]
        fields = _filled(exports=exports, imports=imports, revocations=self.central.revocations)
        return nats_jwt.account_claims(CENTRAL_NAME, self.central.public, _CENTRAL_LIMITS, **fields)

    def _edge(self, ref: ClusterRef, account: Account) -> Claims:
        imports = [
            shared("service", subject, self.central.public, local)
            for local, subject in sharing.services_for_agent(ref).items()
        ]
        imports += [shared("stream", each, self.central.public) for each in sharing.streams_for_agent(ref)]
        exports = [shared("service", each) for each in sharing.services_of_agent(ref)]
        fields = _filled(exports=exports, imports=imports, revocations=account.revocations)
        return nats_jwt.account_claims(f"{_EDGE_PREFIX}{ref}", account.public, _EDGE_LIMITS, **fields)


def _filled(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _same(jwt: str | None, claims: Claims) -> bool:
    """Whether a JWT says what `claims` say, whenever and by whom it was signed."""
    if jwt is None:
        return False
    known = nats_jwt.claims_of(jwt)
    content = {name: value for name, value in known.items() if name not in ("iat", "iss", "jti")}
    return content == nats_jwt.versioned(claims)


def _cluster(name: str) -> ClusterRef:
    tenant, _, cluster = name.removeprefix(_EDGE_PREFIX).partition("/")
    try:
        return ClusterRef(tenant=tenant, cluster=cluster)
    except ValidationError:
        raise SecretsProblem(f"{declared.RESOLVER} has an account {name!r}, which names no cluster") from None
