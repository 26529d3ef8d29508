"""The accounts table and the keys of all its items. No other module builds a key of this table.

| partition | sort key | item |
|---|---|---|
| `tenants` | `<tenant>` | the mark of a tenant, for the list of all |
| `deletions` | `cluster#<tenant>.<cluster>` | a cluster that is being deleted, and how far that is |
| | `tenant#<tenant>` | a tenant that is being deleted |
| `tenant#<tenant>` | `tenant` | the tenant; after its deletion the tombstone, for some time |
| | `uid` | the counter of its members' uids |
| | `name#<name>` | the reservation of a Slurm user name, with its owner's address |
| | `service-account#<name>` | the mark of a service account that exists, for their list |
| | `deactivated#<name>` | the mark of a member who may submit nothing, with their names on clusters |
| | `identity-source#<source>` | where the users of clusters come from whose uids Clusterra does not allocate |
| | `invitation#<id>` | an invitation that an admin has made, until it is accepted, revoked or expired |
| | `event#<time>#<fact>` | a fact that waits until it is told to the histories of the tenant's clusters |
| `domain#<domain>` | `domain` | the tenant of an e-mail domain |
| `email#<address>` | `invitation` | the invitation of an e-mail address by an operator (`provision`) |
| `member#<member>` | `member` | the member: a person or a service account |
| | `membership#<tenant>` | the mark of another tenant that this person belongs to, too |
| | `token#<token id>` | one of their API tokens |
| | `shared-link#<link>` | the mark of a link that they have made to one of their jobs, until it ends |
| | `saved-views` | the lists that they have saved under names, as a console shows them |
| | `notifications` | what they have chosen to get mails about |
| | `signed-out#<session id>` | the mark of a session that was signed out |
| | `user-code-attempts` | how many user codes they have entered of late |
| `device-code#<hash>` | `device-flow` | the sign-in of a program on another machine, until some time after its end |
| `user-code#<hash>` | `user-code` | the hash of the device code that this user code belongs to |
| `session-ticket#<hash>` | `session-ticket` | the way of one browser into one interactive session, for a minute |
| `sessions#<tenant>.<cluster>` | `<job id>` | an interactive session, for 30 days |
| `shared-link#<link>` | `shared-link` | the cluster and the job that this link shows |
| `shared-links#<tenant>.<cluster>` | `<job id>#<link>` | a link that shows a job to whoever has it, until it ends |
| `running-sessions` | `<tenant>.<cluster>#<job id>` | the mark of one whose job has not ended, as far as is known |
| `authorization-code#<hash>` | `authorization-code` | what a person has granted to a program on their own machine |
| `clusters` | `<tenant>.<cluster>` | the cluster's binding |
| `cluster#<tenant>.<cluster>` | `agent-key` | the hash of the cluster's current agent key |
| `file-event#<tenant>.<cluster>` | `<id>` | the event of a change of files, for two days |
| `hook-event#<tenant>.<cluster>` | `<event>` | an event that the site has told, so that it is told once, for a month |
| `agent-key#<hash>` | `agent-key` | the cluster that this agent key belongs to |
| `bus-credentials#<tenant>` | `<id>` | a bus credential, or for some days the mark of a revoked one |
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

from collections.abc import Callable
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

# Partitions that have more than one item, and are listed.
CLUSTERS = "clusters"
TENANTS = "tenants"
DELETIONS = "deletions"
"""Each gateway looks at it again and again."""
RUNNING_SESSIONS = "running-sessions"
IDENTITY_MAPS = "identity-map#"
"""The beginning of the partitions of identity maps."""

# The beginnings of sort keys, by which the items of one kind in a partition are listed.
CLUSTER_DELETIONS = Prefix("cluster#")
TENANT_DELETIONS = Prefix("tenant#")
KEPT_EVENTS = Prefix("event#")
API_TOKENS = Prefix("token#")
USER_NAMES = Prefix("name#")
MEMBERSHIPS = Prefix("membership#")
"""Of the further tenants of a person, below their first member id."""
INVITATIONS = Prefix("invitation#")
DEACTIVATED = Prefix("deactivated#")
SHARED_LINKS = Prefix("shared-link#")
"""Of a member."""
IDENTITY_SOURCES = Prefix("identity-source#")
SERVICE_ACCOUNTS = Prefix("service-account#")
MAPPED_USERS = Prefix("user#")
MAPPED_INDEXES = (Prefix("uid#"), Prefix("email#"))
"""By which a map finds its users."""
SCIM_USERS = Prefix("user#")
SCIM_GROUPS = Prefix("group#")

type _OfName = Callable[[str], Key]
type _OfNames = Callable[[str, str], Key]
type _OfCluster = Callable[[ClusterRef], Key]
type _InCluster = Callable[[ClusterRef, str], Key]


def _key(pk: str, sk: str) -> Callable[..., Key]:
    """Makes keys of this form. Its arguments stand for the braces, in their order."""
    in_pk = pk.count("{")
    return lambda *names: Key(pk.format(*names[:in_pk]), sk.format(*names[in_pk:]))


def _lower_key(pk: str, sk: str) -> Callable[..., Key]:
    """As `_key`. The last argument is an address or a domain, whose case does not count."""
    key = _key(pk, sk)
    return lambda *names: key(*names[:-1], names[-1].lower())


def _name_after(prefix: Prefix) -> Callable[[Key], str]:
    """Reads the name in a key with this prefix."""
    return lambda key: key.sk.removeprefix(prefix.text)


listed_tenant_key: _OfName = _key(TENANTS, "{}")
cluster_key: _OfCluster = _key(CLUSTERS, "{.key}")
cluster_deletion_key: _OfCluster = _key(DELETIONS, "cluster#{.key}")
tenant_deletion_key: _OfName = _key(DELETIONS, "tenant#{}")
deleted_tenant = _name_after(TENANT_DELETIONS)

tenant_key: _OfName = _key("tenant#{}", "tenant")
uid_counter_key: _OfName = _key("tenant#{}", "uid")
user_name_key: _OfNames = _key("tenant#{}", "name#{}")
service_account_key: _OfNames = _key("tenant#{}", "service-account#{}")
deactivated_key: _OfNames = _key("tenant#{}", "deactivated#{}")
service_account_name = _name_after(SERVICE_ACCOUNTS)
identity_source_key: _OfNames = _key("tenant#{}", "identity-source#{}")
identity_source_name = _name_after(IDENTITY_SOURCES)
sent_invitation_key: _OfNames = _key("tenant#{}", "invitation#{}")
sent_invitation_id = _name_after(INVITATIONS)
domain_key: _OfName = _lower_key("domain#{}", "domain")
invitation_key: _OfName = _lower_key("email#{}", "invitation")

member_key: _OfName = _key("member#{}", "member")
further_membership_key: _OfNames = _key("member#{}", "membership#{}")
further_tenant = _name_after(MEMBERSHIPS)
api_token_key: _OfNames = _key("member#{}", "token#{}")
api_token_id = _name_after(API_TOKENS)
saved_views_key: _OfName = _key("member#{}", "saved-views")
notifications_key: _OfName = _key("member#{}", "notifications")
signed_out_key: _OfNames = _key("member#{}", "signed-out#{}")
user_code_attempts_key: _OfName = _key("member#{}", "user-code-attempts")
device_flow_key: _OfName = _key("device-code#{}", "device-flow")
user_code_key: _OfName = _key("user-code#{}", "user-code")
authorization_code_key: _OfName = _key("authorization-code#{}", "authorization-code")

current_agent_key_hash_key: _OfCluster = _key("cluster#{.key}", "agent-key")
agent_key_owner_key: _OfName = _key("agent-key#{}", "agent-key")
file_event_key: _InCluster = _key("file-event#{.key}", "{}")
hook_event_key: _InCluster = _key("hook-event#{.key}", "{}")

shared_link_place_key: _OfName = _key("shared-link#{}", "shared-link")
shared_links_partition: Callable[[ClusterRef], str] = "shared-links#{.key}".format
shared_link_key: Callable[[ClusterRef, str, str], Key] = _key("shared-links#{.key}", "{}#{}")
member_link_key: _OfNames = _key("member#{}", "shared-link#{}")
session_ticket_key: _OfName = _key("session-ticket#{}", "session-ticket")
interactive_sessions_partition: Callable[[ClusterRef], str] = "sessions#{.key}".format
interactive_session_key: _InCluster = _key("sessions#{.key}", "{}")
running_session_key: _InCluster = _key(RUNNING_SESSIONS, "{.key}#{}")

bus_credentials_partition: Callable[[str], str] = "bus-credentials#{}".format
bus_credential_key: _OfNames = _key("bus-credentials#{}", "{}")

quotas_partition: Callable[[str], str] = "quotas#{}".format
quota_key: _OfNames = _key("quotas#{}", "{}")
quota_uses_partition: Callable[[str], str] = "quota-use#{}".format
quota_use_key: Callable[[str, str, str], Key] = _key("quota-use#{}", "{}#{}")
budgets_partition: Callable[[str], str] = "budgets#{}".format
budget_key: _OfNames = _key("budgets#{}", "{}")
budget_alerts_partition: Callable[[str], str] = "budget-alerts#{}".format
budget_alert_key: _OfNames = _key("budget-alerts#{}", "{}")
limit_event_key: _OfNames = _key("limit-event#{}", "{}")
reservations_partition: Callable[[ClusterRef], str] = "reservations#{.key}".format
reservation_key: _InCluster = _key("reservations#{.key}", "{}")

identity_state_key: _OfNames = _key("identity-map#{}.{}", "state")
mapped_user_key: Callable[[str, str, str], Key] = _key("identity-map#{}.{}", "user#{}")
mapped_user_name = _name_after(MAPPED_USERS)
mapped_uid_key: Callable[[str, str, int], Key] = _key("identity-map#{}.{}", "uid#{}")
mapped_email_key: Callable[[str, str, str], Key] = _lower_key("identity-map#{}.{}", "email#{}")

scim_state_key: _OfName = _key("scim#{}", "state")
scim_resource_key: Callable[[str, ScimKind, str], Key] = _key("scim#{}", "{}#{}")
scim_address_key: _OfNames = _lower_key("scim#{}", "address#{}")


def shared_links_of(job_id: str) -> Prefix:
    """The sort keys of the links that show a job."""
    return Prefix(f"{job_id}#")


def shared_link_id(key: Key) -> str:
    """The id of a link of a job."""
    return key.sk.partition("#")[2]


def deleted_cluster(key: Key) -> ClusterRef:
    """The cluster of this deletion."""
    return ClusterRef.from_key(key.sk.removeprefix(CLUSTER_DELETIONS.text))


def kept_event_key(tenant: str, at: datetime, fact: str) -> Key:
    """Key of a fact that a tenant keeps: one without clusters, or with many."""
    return Key(f"tenant#{tenant}", f"{KEPT_EVENTS.text}{at.isoformat(timespec='microseconds')}#{fact}")


def scim_index_key(tenant: str, kind: ScimKind, index: ScimIndex, value: str) -> Key:
    """Key of the id of the user or group with this name or externalId. Names are the same in upper and lower case."""
    exact = value if index == "external" else value.lower()
    return Key(f"scim#{tenant}", f"{kind}-{index}#{sha256(exact.encode()).hexdigest()}")


def scim_names(kind: ScimKind) -> Prefix:
    """The sort keys of the names of all users, or of all groups."""
    return Prefix(f"{kind}-name#")
