"""The accounts table and the keys of all its items. No other module builds a key of this table.

| partition | sort key | item |
|---|---|---|
| `tenants` | `<tenant>` | the mark of a tenant, for the list of all |
| `deletions` | `cluster#<tenant>.<cluster>` | a cluster that is being deleted, and how far that is |
| | `tenant#<tenant>` | a tenant that is being deleted |
| `tenant#<tenant>` | `tenant` | the tenant; after its deletion the tombstone, for some time |
| | `uid` | the counter of its members' uids |
| | `name#<name>` | the reservation of a Slurm user name |
| | `service-account#<name>` | the mark of a service account that exists, for their list |
| | `identity-source#<source>` | where the users of clusters come from whose uids Clusterra does not allocate |
| | `invitation#<id>` | an invitation that an admin has made, until it is accepted, revoked or expired |
| | `event#<time>#<fact>` | a fact about a person, until the tenant has a cluster |
| `domain#<domain>` | `domain` | the tenant of an e-mail domain |
| `email#<address>` | `invitation` | the invitation of an e-mail address by an operator (`provision`) |
| `member#<member>` | `member` | the member: a person or a service account |
| | `membership#<tenant>` | the mark of another tenant that this person belongs to, too |
| | `token#<token id>` | one of their API tokens |
| | `signed-out#<session id>` | the mark of a session that was signed out |
| | `user-code-attempts` | how many user codes they have entered of late |
| `device-code#<hash>` | `device-flow` | the sign-in of a program on another machine, until some time after its end |
| `user-code#<hash>` | `user-code` | the hash of the device code that this user code belongs to |
| `session-ticket#<hash>` | `session-ticket` | the way of one browser into one interactive session, for a minute |
| `sessions#<tenant>.<cluster>` | `<job id>` | an interactive session, for 30 days |
| `running-sessions` | `<tenant>.<cluster>#<job id>` | the mark of one whose job has not ended, as far as is known |
| `authorization-code#<hash>` | `authorization-code` | what a person has granted to a program on their own machine |
| `clusters` | `<tenant>.<cluster>` | the cluster's binding |
| `cluster#<tenant>.<cluster>` | `agent-key` | the hash of the cluster's current agent key |
| `file-event#<tenant>.<cluster>` | `<id>` | the event of a change of files, for two days |
| `agent-key#<hash>` | `agent-key` | the cluster that this agent key belongs to |
| `quotas#<tenant>` | `<kind>#<name>` | a quota of a user, an account or the tenant |
| `quota-use#<tenant>` | `<month>#<kind>#<name>` | how much of it is used or reserved |
| `budgets#<tenant>` | `<kind>#<name>` | a budget of a user, an account or the tenant |
| `budget-alerts#<tenant>` | `<month>#<kind>#<name>#<measure>#<percent>` | a threshold that was crossed, and its event |
| `limit-event#<tenant>` | `<id>` | the event of a change of a quota or a budget, for two days |
| `reservations#<tenant>.<cluster>` | `<reservation>` | the projected cost of a job that has not ended |
| `identity-map#<tenant>.<source>` | `state` | when it was read, and what it refused |
| | `user#<name>` | a user of its map, for good |
| | `uid#<uid>` | the name of the user with this uid, for good |
| | `email#<address>` | the name of the user who is the person with this address |
| `scim#<tenant>` | `state` | how many users and groups were provisioned; its version counts their changes |
| | `user#<id>`, `group#<id>` | a user or a group that the tenant's directory has provisioned by SCIM |
| | `user-name#<hash>`, `user-external#<hash>` | the id of the user with this userName, or externalId |
| | `group-name#<hash>`, `group-external#<hash>` | the id of the group with this displayName, or externalId |
| | `address#<address>` | whether the person with this address may sign in |
| `migrations` | `level` | the level of the records (`clusterra_runtime.store.record_level`) |
"""

from datetime import datetime
from hashlib import sha256
from typing import Literal

from clusterra_contracts.identity import ClusterRef
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.outbox_item import OUTBOX
from clusterra_runtime.store.page import Prefix
from clusterra_runtime.store.record_level import RecordForms
from clusterra_runtime.store.store import Table
from clusterra_runtime.store.table_use import TableUse

ACCOUNTS = Table("accounts", indexes=(OUTBOX,))
USE = TableUse(
    ACCOUNTS,
    "tenants, people, sessions signed out, API tokens, sign-ins of programs, clusters and agent keys",
    frozenset({"get", "put", "update", "delete", "query", "query_index", "scan"}),
    items_expire=True,
)
FORMS = RecordForms(ACCOUNTS, needs=0, knows=0)
"""The migrations of `accounts` that this release knows and needs (`clusterra_admin.migrations`)."""

type ScimKind = Literal["user", "group"]
type ScimIndex = Literal["name", "external"]

CLUSTERS = "clusters"
"""The partition of all clusters. There is only one, so that they can be listed."""

TENANTS = "tenants"
"""The partition of the marks of all tenants."""

DELETIONS = "deletions"
"""The partition of everything that is being deleted. Each gateway looks at it again and again."""

CLUSTER_DELETIONS = Prefix("cluster#")
TENANT_DELETIONS = Prefix("tenant#")
"""Their sort keys."""

KEPT_EVENTS = Prefix("event#")
"""The sort keys of the facts that a tenant without clusters keeps."""

API_TOKENS = Prefix("token#")
"""The sort keys of a member's API tokens."""

USER_NAMES = Prefix("name#")
"""The sort keys of a tenant's user names."""

MEMBERSHIPS = Prefix("membership#")
"""The sort keys of the further tenants of a person, below their first member id."""

INVITATIONS = Prefix("invitation#")
"""The sort keys of a tenant's invitations."""

IDENTITY_SOURCES = Prefix("identity-source#")
"""The sort keys of a tenant's identity sources."""

RUNNING_SESSIONS = "running-sessions"
"""The partition of the marks of sessions whose jobs have not ended."""

IDENTITY_MAPS = "identity-map#"
"""The beginning of the partitions of identity maps."""

MAPPED_INDEXES = (Prefix("uid#"), Prefix("email#"))
"""The sort keys by which a map finds its users."""

MAPPED_USERS = Prefix("user#")
"""The sort keys of the users of an identity map."""

SERVICE_ACCOUNTS = Prefix("service-account#")
"""The sort keys of the marks of a tenant's service accounts."""


SCIM_USERS = Prefix("user#")
SCIM_GROUPS = Prefix("group#")
"""The sort keys of what a directory has provisioned."""


def tenant_key(tenant: str) -> Key:
    """Key of a tenant."""
    return Key(f"tenant#{tenant}", "tenant")


def listed_tenant_key(tenant: str) -> Key:
    """Key of the mark of a tenant, for the list of all."""
    return Key(TENANTS, tenant)


def cluster_deletion_key(ref: ClusterRef) -> Key:
    """Key of a cluster's deletion while it is under way."""
    return Key(DELETIONS, f"cluster#{ref.key}")


def deleted_cluster(key: Key) -> ClusterRef:
    """The cluster of this deletion."""
    return ClusterRef.from_key(key.sk.removeprefix(CLUSTER_DELETIONS.text))


def deleted_tenant(key: Key) -> str:
    """The tenant of this deletion."""
    return key.sk.removeprefix(TENANT_DELETIONS.text)


def tenant_deletion_key(tenant: str) -> Key:
    """Key of a tenant's deletion while it is under way."""
    return Key(DELETIONS, f"tenant#{tenant}")


def uid_counter_key(tenant: str) -> Key:
    """Key of the counter of a tenant's uids."""
    return Key(f"tenant#{tenant}", "uid")


def user_name_key(tenant: str, name: str) -> Key:
    """Key of the reservation of a Slurm user name in a tenant."""
    return Key(f"tenant#{tenant}", f"{USER_NAMES.text}{name}")


def service_account_key(tenant: str, name: str) -> Key:
    """Key of the mark that a tenant has a service account with this name."""
    return Key(f"tenant#{tenant}", f"{SERVICE_ACCOUNTS.text}{name}")


def service_account_name(key: Key) -> str:
    """The name of the service account with this mark."""
    return key.sk.removeprefix(SERVICE_ACCOUNTS.text)


def sent_invitation_key(tenant: str, invitation_id: str) -> Key:
    """Key of an invitation that an admin of the tenant has made."""
    return Key(f"tenant#{tenant}", f"{INVITATIONS.text}{invitation_id}")


def sent_invitation_id(key: Key) -> str:
    """The id of the invitation with this key."""
    return key.sk.removeprefix(INVITATIONS.text)


def kept_event_key(tenant: str, at: datetime, fact: str) -> Key:
    """Key of a fact that a tenant without clusters keeps."""
    return Key(f"tenant#{tenant}", f"{KEPT_EVENTS.text}{at.isoformat(timespec='microseconds')}#{fact}")


def domain_key(domain: str) -> Key:
    """Key of an e-mail domain."""
    return Key(f"domain#{domain.lower()}", "domain")


def invitation_key(email: str) -> Key:
    """Key of the invitation of an e-mail address."""
    return Key(f"email#{email.lower()}", "invitation")


def member_key(member_id: str) -> Key:
    """Key of a member."""
    return Key(f"member#{member_id}", "member")


def further_membership_key(first_id: str, tenant: str) -> Key:
    """Key of the mark that a person belongs to another tenant, too."""
    return Key(f"member#{first_id}", f"{MEMBERSHIPS.text}{tenant}")


def further_tenant(key: Key) -> str:
    """The tenant of this mark."""
    return key.sk.removeprefix(MEMBERSHIPS.text)


def api_token_key(member_id: str, token_id: str) -> Key:
    """Key of an API token."""
    return Key(f"member#{member_id}", f"{API_TOKENS.text}{token_id}")


def api_token_id(key: Key) -> str:
    """The id of the API token with this key."""
    return key.sk.removeprefix(API_TOKENS.text)


def signed_out_key(member_id: str, session_id: str) -> Key:
    """Key of the mark that a session was signed out before it expired."""
    return Key(f"member#{member_id}", f"signed-out#{session_id}")


def user_code_attempts_key(member_id: str) -> Key:
    """Key of the counter of the user codes that a member has entered of late."""
    return Key(f"member#{member_id}", "user-code-attempts")


def device_flow_key(device_code_hash: str) -> Key:
    """Key of the sign-in with this device code."""
    return Key(f"device-code#{device_code_hash}", "device-flow")


def user_code_key(user_code_hash: str) -> Key:
    """Key of the sign-in's other code, which the person enters."""
    return Key(f"user-code#{user_code_hash}", "user-code")


def authorization_code_key(code_hash: str) -> Key:
    """Key of what a person has granted to the program that gets this authorization code."""
    return Key(f"authorization-code#{code_hash}", "authorization-code")


def cluster_key(ref: ClusterRef) -> Key:
    """Key of a cluster's binding."""
    return Key(CLUSTERS, ref.key)


def current_agent_key_hash_key(ref: ClusterRef) -> Key:
    """Key of the hash of a cluster's current agent key."""
    return Key(f"cluster#{ref.key}", "agent-key")


def agent_key_owner_key(key_hash: str) -> Key:
    """Key of the cluster that the agent key with this hash belongs to."""
    return Key(f"agent-key#{key_hash}", "agent-key")


def file_event_key(ref: ClusterRef, version: str) -> Key:
    """Key of the event of a change of files in a cluster's bucket."""
    return Key(f"file-event#{ref.key}", version)


def quotas_partition(tenant: str) -> str:
    """The quotas of a tenant."""
    return f"quotas#{tenant}"


def quota_key(tenant: str, scope: str) -> Key:
    """Key of a quota; `scope` is `<kind>#<name>`."""
    return Key(quotas_partition(tenant), scope)


def quota_uses_partition(tenant: str) -> str:
    """What is used of the quotas of a tenant."""
    return f"quota-use#{tenant}"


def quota_use_key(tenant: str, month: str, scope: str) -> Key:
    """Key of what is used of a quota in a month."""
    return Key(quota_uses_partition(tenant), f"{month}#{scope}")


def budgets_partition(tenant: str) -> str:
    """The budgets of a tenant."""
    return f"budgets#{tenant}"


def budget_key(tenant: str, scope: str) -> Key:
    """Key of a budget; `scope` is `<kind>#<name>`."""
    return Key(budgets_partition(tenant), scope)


def budget_alerts_partition(tenant: str) -> str:
    """The thresholds of a tenant's budgets that were crossed."""
    return f"budget-alerts#{tenant}"


def budget_alert_key(tenant: str, name: str) -> Key:
    """Key of a threshold that was crossed in a month."""
    return Key(budget_alerts_partition(tenant), name)


def limit_event_key(tenant: str, version: str) -> Key:
    """Key of the event of a change of a quota or a budget."""
    return Key(f"limit-event#{tenant}", version)


def reservations_partition(ref: ClusterRef) -> str:
    """The reservations for jobs of a cluster that have not ended."""
    return f"reservations#{ref.key}"


def reservation_key(ref: ClusterRef, reservation_id: str) -> Key:
    """Key of a reservation."""
    return Key(reservations_partition(ref), reservation_id)


def identity_source_key(tenant: str, source: str) -> Key:
    """Key of an identity source of a tenant."""
    return Key(f"tenant#{tenant}", f"{IDENTITY_SOURCES.text}{source}")


def identity_source_name(key: Key) -> str:
    """The name of the identity source with this key."""
    return key.sk.removeprefix(IDENTITY_SOURCES.text)


def identity_state_key(tenant: str, source: str) -> Key:
    """Key of the state of the source's map."""
    return Key(_identity_map(tenant, source), "state")


def mapped_user_key(tenant: str, source: str, name: str) -> Key:
    """Key of a user of the map."""
    return Key(_identity_map(tenant, source), f"{MAPPED_USERS.text}{name}")


def mapped_uid_key(tenant: str, source: str, uid: int) -> Key:
    """Key of the user name that has a uid in the map."""
    return Key(_identity_map(tenant, source), f"uid#{uid}")


def mapped_email_key(tenant: str, source: str, email: str) -> Key:
    """Key of the user name that the person with an address has in the map."""
    return Key(_identity_map(tenant, source), f"email#{email.lower()}")


def scim_state_key(tenant: str) -> Key:
    """Key of the counters of what a directory has provisioned in a tenant."""
    return Key(f"scim#{tenant}", "state")


def scim_resource_key(tenant: str, kind: ScimKind, resource_id: str) -> Key:
    """Key of a provisioned user or group."""
    return Key(f"scim#{tenant}", f"{kind}#{resource_id}")


def scim_index_key(tenant: str, kind: ScimKind, index: ScimIndex, value: str) -> Key:
    """Key of the id of the user or group with this name or externalId. Names are the same in upper and lower case."""
    exact = value if index == "external" else value.lower()
    return Key(f"scim#{tenant}", f"{kind}-{index}#{sha256(exact.encode()).hexdigest()}")


def scim_names(kind: ScimKind) -> Prefix:
    """The sort keys of the names of all users, or of all groups."""
    return Prefix(f"{kind}-name#")


def scim_address_key(tenant: str, address: str) -> Key:
    """Key of the mark of an address that a directory has provisioned."""
    return Key(f"scim#{tenant}", f"address#{address.lower()}")


def _identity_map(tenant: str, source: str) -> str:
    return f"{IDENTITY_MAPS}{tenant}.{source}"


def session_ticket_key(ticket_hash: str) -> Key:
    """Key of a ticket with which a browser enters an interactive session."""
    return Key(f"session-ticket#{ticket_hash}", "session-ticket")


def interactive_sessions_partition(ref: ClusterRef) -> str:
    """The interactive sessions of a cluster."""
    return f"sessions#{ref.key}"


def interactive_session_key(ref: ClusterRef, job_id: str) -> Key:
    """Key of an interactive session."""
    return Key(interactive_sessions_partition(ref), job_id)


def running_session_key(ref: ClusterRef, job_id: str) -> Key:
    """Key of the mark of a session whose job has not ended."""
    return Key(RUNNING_SESSIONS, f"{ref.key}#{job_id}")


def running_session(key: Key) -> tuple[ClusterRef, str]:
    """The cluster and the job of this mark. Raises pydantic's ValidationError for one that names none."""
    cluster, _, job_id = key.sk.rpartition("#")
    return ClusterRef.from_key(cluster), job_id
