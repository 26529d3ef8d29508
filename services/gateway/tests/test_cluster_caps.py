"""A tenant's cap: its clusters together never get more, and none silently gets nothing."""

from typing import Any

import pytest
from clusterra_gateway.tenants.shares import cluster_caps
from clusterra_gateway.tenants.specification import ProvisionFile
from gateway_world import provisioned
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

usd = st.floats(0.01, 1000.0)


@given(usd, st.dictionaries(st.sampled_from("abcdef"), st.one_of(st.none(), usd), min_size=1))
def test_the_caps_together_never_exceed_that_of_the_tenant(tenant_cap: float, caps: dict[str, float | None]) -> None:
    own = [cap for cap in caps.values() if cap is not None]

    if tenant_cap - sum(own) < 0 or (tenant_cap == sum(own) and None in caps.values()):
        with pytest.raises(ValueError, match="USD per hour"):
            cluster_caps(tenant_cap, caps)
        return

    shares = cluster_caps(tenant_cap, caps)

    assert shares.keys() == caps.keys()
    assert sum(shares.values()) <= tenant_cap * (1 + 1e-9)
    assert all(shares[cluster] == cap for cluster, cap in caps.items() if cap is not None)
    rest = {shares[cluster] for cluster, cap in caps.items() if cap is None}
    assert len(rest) <= 1
    assert all(share > 0 for share in rest)


def tenant_with_two_clusters(**fields: Any) -> dict[str, Any]:
    acme: dict[str, Any] = provisioned("acme", "main")
    (cluster,) = acme["clusters"]
    capped = cluster | {"id": "capped", "policy": {"usd_per_hour": 4.0}}
    return acme | {"clusters": [cluster, capped]} | fields


def caps_in_file(acme: dict[str, Any]) -> dict[str, float | None]:
    return ProvisionFile.model_validate({"tenants": [acme]}).tenants[0].caps()


def test_a_file_divides_the_tenants_cap_among_the_clusters() -> None:
    assert caps_in_file(tenant_with_two_clusters()) == {"main": None, "capped": 4.0}
    assert caps_in_file(tenant_with_two_clusters(usd_per_hour=10.0)) == {"main": 6.0, "capped": 4.0}


def test_a_tenants_cap_that_does_not_suffice_is_rejected() -> None:
    with pytest.raises(ValidationError, match="nothing is left for main: raise the tenant's cap"):
        caps_in_file(tenant_with_two_clusters(usd_per_hour=4.0))
