"""Keys of the accounts table. Installations have items under these keys: a change of one would lose them."""

from hashlib import sha256

import pytest
from clusterra_contracts.identity import ClusterRef
from clusterra_gateway.accounts import keyspace
from clusterra_runtime.store.item import Key

REF = ClusterRef(tenant="acme", cluster="main")


def _hash(text: str) -> str:
    return sha256(text.encode()).hexdigest()


@pytest.mark.parametrize(
    ("key", "partition", "sort"),
    [
        (keyspace.tenant_key("acme"), "tenant#acme", "tenant"),
        (keyspace.uid_counter_key("acme"), "tenant#acme", "uid"),
        (keyspace.user_name_key("acme", "ada"), "tenant#acme", "name#ada"),
        (keyspace.domain_key("ACME.example"), "domain#acme.example", "domain"),
        (keyspace.invitation_key("Ada@ACME.example"), "email#ada@acme.example", "invitation"),
        (keyspace.member_key("m1"), "member#m1", "member"),
        (keyspace.api_token_key("m1", "t1"), "member#m1", "token#t1"),
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
    ],
)
def test_every_item_keeps_its_key(key: Key, partition: str, sort: str) -> None:
    assert key == Key(partition, sort)


def test_the_id_of_a_token_can_be_read_from_its_key() -> None:
    key = keyspace.api_token_key("m1", "t1")

    assert keyspace.API_TOKENS.covers(key.sk)
    assert keyspace.api_token_id(key) == "t1"
