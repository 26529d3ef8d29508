"""Keys of the accounts table. Installations have items under these keys: a change of one would lose them."""

from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.accounts import keyspace
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.page import Prefix

REF = ClusterRef(tenant="acme", cluster="main")
AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("key", "partition", "sort"),
    [
        (keyspace.tenant_key("acme"), "tenant#acme", "tenant"),
        (keyspace.uid_counter_key("acme"), "tenant#acme", "uid"),
        (keyspace.user_name_key("acme", "ada"), "tenant#acme", "name#ada"),
        (keyspace.deactivated_key("acme", "ada"), "tenant#acme", "deactivated#ada"),
        (keyspace.domain_key("ACME.example"), "domain#acme.example", "domain"),
        (keyspace.invitation_key("Ada@ACME.example"), "email#ada@acme.example", "invitation"),
        (keyspace.member_key("m1"), "member#m1", "member"),
        (keyspace.api_token_key("m1", "t1"), "member#m1", "token#t1"),
        (keyspace.saved_views_key("m1"), "member#m1", "saved-views"),
        (keyspace.signed_out_key("m1", "s1"), "member#m1", "signed-out#s1"),
        (keyspace.user_code_attempts_key("m1"), "member#m1", "user-code-attempts"),
        (keyspace.device_flow_key("h1"), "device-code#h1", "device-flow"),
        (keyspace.user_code_key("h1"), "user-code#h1", "user-code"),
        (keyspace.authorization_code_key("h1"), "authorization-code#h1", "authorization-code"),
        (keyspace.cluster_key(REF), "clusters", "acme.main"),
        (keyspace.current_agent_key_hash_key(REF), "cluster#acme.main", "agent-key"),
        (keyspace.agent_key_owner_key("h1"), "agent-key#h1", "agent-key"),
        (keyspace.file_event_key(REF, "e1"), "file-event#acme.main", "e1"),
        (keyspace.identity_source_key("acme", "campus"), "tenant#acme", "identity-source#campus"),
        (keyspace.identity_state_key("acme", "campus"), "identity-map#acme.campus", "state"),
        (keyspace.mapped_user_key("acme", "campus", "ada"), "identity-map#acme.campus", "user#ada"),
        (keyspace.mapped_uid_key("acme", "campus", 5001), "identity-map#acme.campus", "uid#5001"),
        (keyspace.mapped_email_key("acme", "campus", "Ada@X.org"), "identity-map#acme.campus", "email#ada@x.org"),
        (keyspace.scim_state_key("acme"), "scim#acme", "state"),
        (keyspace.scim_resource_key("acme", "user", "u1"), "scim#acme", "user#u1"),
        (keyspace.scim_resource_key("acme", "group", "g1"), "scim#acme", "group#g1"),
        (keyspace.scim_index_key("acme", "user", "name", "Ada"), "scim#acme", f"user-name#{_hash('ada')}"),
        (keyspace.scim_index_key("acme", "group", "external", "Ada"), "scim#acme", f"group-external#{_hash('Ada')}"),
        (keyspace.scim_address_key("acme", "Ada@X.org"), "scim#acme", "address#ada@x.org"),
        (keyspace.listed_tenant_key("acme"), "tenants", "acme"),
        (keyspace.cluster_deletion_key(REF), "deletions", "cluster#acme.main"),
        (keyspace.tenant_deletion_key("acme"), "deletions", "tenant#acme"),
        (keyspace.service_account_key("acme", "ci"), "tenant#acme", "service-account#ci"),
        (keyspace.sent_invitation_key("acme", "i1"), "tenant#acme", "invitation#i1"),
        (keyspace.kept_event_key("acme", AT, "f1"), "tenant#acme", "event#2026-03-01T12:00:00.000000+00:00#f1"),
        (keyspace.further_membership_key("m1", "rival"), "member#m1", "membership#rival"),
        (keyspace.shared_link_place_key("l1"), "shared-link#l1", "shared-link"),
        (keyspace.shared_link_key(REF, "7_1", "l1"), "shared-links#acme.main", "7_1#l1"),
        (keyspace.member_link_key("m1", "l1"), "member#m1", "shared-link#l1"),
        (keyspace.session_ticket_key("h1"), "session-ticket#h1", "session-ticket"),
        (keyspace.interactive_session_key(REF, "7"), "sessions#acme.main", "7"),
        (keyspace.running_session_key(REF, "7"), "running-sessions", "acme.main#7"),
        (keyspace.bus_credential_key("acme", "b1"), "bus-credentials#acme", "b1"),
        (keyspace.quota_key("acme", "user#ada"), "quotas#acme", "user#ada"),
        (keyspace.quota_use_key("acme", "2026-03", "user#ada"), "quota-use#acme", "2026-03#user#ada"),
        (keyspace.budget_key("acme", "user#ada"), "budgets#acme", "user#ada"),
        (keyspace.budget_alert_key("acme", "2026-03#a"), "budget-alerts#acme", "2026-03#a"),
        (keyspace.limit_event_key("acme", "e1"), "limit-event#acme", "e1"),
        (keyspace.reservation_key(REF, "r1"), "reservations#acme.main", "r1"),
    ],
)
def test_every_item_keeps_its_key(key: Key, partition: str, sort: str) -> None:
    assert key == Key(partition, sort)


@pytest.mark.parametrize(
    ("key", "kind", "name"),
    [
        (keyspace.api_token_key("m1", "n#1"), keyspace.API_TOKENS, keyspace.api_token_id),
        (keyspace.sent_invitation_key("acme", "n#1"), keyspace.INVITATIONS, keyspace.sent_invitation_id),
        (keyspace.service_account_key("acme", "n#1"), keyspace.SERVICE_ACCOUNTS, keyspace.service_account_name),
        (keyspace.identity_source_key("acme", "n#1"), keyspace.IDENTITY_SOURCES, keyspace.identity_source_name),
        (keyspace.further_membership_key("m1", "n#1"), keyspace.MEMBERSHIPS, keyspace.further_tenant),
        (keyspace.mapped_user_key("acme", "campus", "n#1"), keyspace.MAPPED_USERS, keyspace.mapped_user_name),
        (keyspace.tenant_deletion_key("n#1"), keyspace.TENANT_DELETIONS, keyspace.deleted_tenant),
        (keyspace.shared_link_key(REF, "7_1", "n#1"), keyspace.shared_links_of("7_1"), keyspace.shared_link_id),
    ],
)
def test_the_name_can_be_read_from_a_key_that_is_listed(key: Key, kind: Prefix, name: Callable[[Key], str]) -> None:
    assert kind.covers(key.sk)
    assert name(key) == "n#1"


def test_the_names_in_a_key_are_no_patterns() -> None:
    assert keyspace.user_name_key("{0}", "{.key}%s") == Key("tenant#{0}", "name#{.key}%s")


@pytest.mark.parametrize(
    ("partition", "key"),
    [
        (keyspace.bus_credentials_partition("acme"), keyspace.bus_credential_key("acme", "b1")),
        (keyspace.quotas_partition("acme"), keyspace.quota_key("acme", "user#ada")),
        (keyspace.quota_uses_partition("acme"), keyspace.quota_use_key("acme", "2026-03", "user#ada")),
        (keyspace.budgets_partition("acme"), keyspace.budget_key("acme", "user#ada")),
        (keyspace.budget_alerts_partition("acme"), keyspace.budget_alert_key("acme", "a")),
        (keyspace.reservations_partition(REF), keyspace.reservation_key(REF, "r1")),
        (keyspace.interactive_sessions_partition(REF), keyspace.interactive_session_key(REF, "7")),
        (keyspace.shared_links_partition(REF), keyspace.shared_link_key(REF, "7", "l1")),
    ],
)
def test_a_partition_that_is_listed_is_that_of_its_items(partition: str, key: Key) -> None:
    assert key.pk == partition
