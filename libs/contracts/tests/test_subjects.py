"""Subjects: parsers reverse the builders, and only a valid id becomes a token."""

import re

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.permissions import edge_agent
from clusterra_contracts.bus.subjects import SHARD_COUNT, Subject, UnknownSubject
from clusterra_contracts.identity import ClusterRef, TenantRef
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

ids = st.from_regex(r"[a-z0-9][a-z0-9-]{0,38}", fullmatch=True)
refs = st.builds(ClusterRef, tenant=ids, cluster=ids)
words = st.from_regex(r"[a-z]{1,10}", fullmatch=True)


@given(refs, words, words)
def test_parsers_reverse_the_builders(ref: ClusterRef, first: str, second: str) -> None:
    assert subjects.parse(subjects.job_pending(ref)) == Subject("job.pending", ref)
    assert subjects.parse(subjects.job_sharded(ref)) == Subject("job.pending", ref)
    assert subjects.parse(subjects.scale_desired(ref)) == Subject("scale.desired", ref)
    assert subjects.parse(subjects.heartbeat(ref)) == Subject("heartbeat", ref)
    assert subjects.parse(subjects.history(ref)) == Subject("history", ref)
    assert subjects.parse(subjects.slurm(ref, first)) == Subject("slurm", ref, first)
    assert subjects.parse(subjects.edge(ref, first)) == Subject("edge", ref, first)
    assert subjects.parse(subjects.scaler(ref, first)) == Subject("scaler", ref, first)
    assert subjects.parse(subjects.forget(ref, first)) == Subject("forget", ref, first)
    assert subjects.parse(subjects.event(ref, f"{first}.{second}")) == Subject("event", ref, f"{first}.{second}")
    assert subjects.parse_tenant(subjects.revocation(TenantRef(tenant=ref.tenant))).tenant == ref.tenant
    assert subjects.parse_tenant(subjects.webhook_test(TenantRef(tenant=ref.tenant))).tenant == ref.tenant
    assert subjects.parse_tenant(subjects.webhook_deliveries(TenantRef(tenant=ref.tenant))).tenant == ref.tenant
    assert subjects.parse_tenant(subjects.usage(TenantRef(tenant=ref.tenant))).tenant == ref.tenant
    assert ClusterRef.from_key(ref.key) == ref


@given(st.text(max_size=60))
def test_any_string_is_either_a_valid_subject_or_rejected(text: str) -> None:
    try:
        parsed = subjects.parse(text)
    except UnknownSubject:
        return
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,38}", parsed.ref.tenant)


@pytest.mark.parametrize(
    "subject",
    [
        "job.pending.*.c1",
        "job.pending.acme.>",
        "job.pending.acme",
        "job.pending.acme.c1.more",
        "scale.desired.ACME.c1",
        "event.acme.c1.job",
        "event.acme.c1..running",
        "slurm.acme.c1",
        "",
        "dlq.job.pending.acme.c1",
    ],
)
def test_a_foreign_subject_is_rejected(subject: str) -> None:
    with pytest.raises(UnknownSubject):
        subjects.parse(subject)


@pytest.mark.parametrize("invalid", ["*", ">", "a.b", "", "-a", "a" * 40, "Acme", "a b", "a\n", "ä"])
def test_an_id_contains_no_wildcard_or_separator(invalid: str) -> None:
    with pytest.raises(ValidationError):
        ClusterRef(tenant=invalid, cluster="c1")
    with pytest.raises(ValidationError):
        ClusterRef(tenant="acme", cluster=invalid)


@given(refs)
def test_the_shard_of_a_cluster_is_in_range(ref: ClusterRef) -> None:
    assert 0 <= subjects.job_shard(ref) < SHARD_COUNT


@given(refs)
def test_an_agent_may_only_access_its_own_cluster(ref: ClusterRef) -> None:
    granted = edge_agent(ref)

    for subject in (*granted.publish, *granted.subscribe):
        assert f"{ref.tenant}.{ref.cluster}" in subject
        assert not subject.startswith((">", "*", "$JS.API.CONSUMER", "$JS.API.STREAM"))
