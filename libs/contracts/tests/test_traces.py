"""The subjects that a deletion purges: of every stream, and of no other cluster."""

from clusterra_contracts.bus import traces
from clusterra_contracts.bus.messages import PUBLICATIONS, REQUESTS
from clusterra_contracts.bus.permissions import CENTRAL_SERVICES, central_service
from clusterra_contracts.bus.topology import ADVISORY, BUCKETS, LEASES, STREAMS, VERSIONS
from clusterra_contracts.identity import ClusterRef
from hypothesis import given
from hypothesis import strategies as st

ids = st.from_regex(r"[a-z0-9][a-z0-9-]{0,38}", fullmatch=True)
refs = st.builds(ClusterRef, tenant=ids, cluster=ids)
ADDRESSES = (*(each.address for each in PUBLICATIONS), *(each.address for each in REQUESTS))
OF_CLUSTERS = tuple(address for address in ADDRESSES if "{cluster}" in address)
REF = ClusterRef(tenant="acme", cluster="main")


def fits(pattern: str, subject: str) -> bool:
    wanted, tokens = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        return len(tokens) >= len(wanted) and tokens[: len(wanted) - 1] == wanted[:-1]
    return tokens == wanted


def test_every_stream_and_bucket_is_covered_or_holds_nothing_of_a_cluster() -> None:
    without = {ADVISORY.name, f"KV_{LEASES.name}", f"KV_{VERSIONS.name}"}
    declared = {stream.name for stream in STREAMS} | {f"KV_{bucket.name}" for bucket in BUCKETS}

    covered = set(traces.of_cluster(REF))

    assert covered == set(traces.PURGED) == declared - without


def test_every_message_of_a_cluster_is_covered_as_a_dead_letter() -> None:
    patterns = traces.of_cluster(REF)["DLQ"]

    for address in OF_CLUSTERS:
        subject = address.format(tenant=REF.tenant, cluster=REF.cluster, kind="job.running", slot=0, number=1)
        assert any(fits(pattern, f"dlq.{subject}") for pattern in patterns), address


@given(refs, refs)
def test_no_pattern_fits_a_message_of_another_cluster(ref: ClusterRef, other: ClusterRef) -> None:
    if ref == other:
        return
    patterns = [pattern for each in traces.of_cluster(ref).values() for pattern in each]
    for address in OF_CLUSTERS:
        subject = address.format(tenant=other.tenant, cluster=other.cluster, kind="job.running", slot=0, number=1)
        assert not any(fits(pattern, name) for pattern in patterns for name in (subject, f"dlq.{subject}"))


def test_only_the_gateway_may_purge_them() -> None:
    for service in CENTRAL_SERVICES:
        allowed = {each for each in central_service(service).publish if each.startswith("$JS.API.STREAM.PURGE.")}
        streams = {each.rpartition(".")[2] for each in allowed}
        assert (set(traces.PURGED) <= streams) == (service == "gateway")
