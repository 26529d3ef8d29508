"""The scaling policies by the name that a cluster's binding gives."""

from collections.abc import Mapping

from clusterra_contracts.registry import ClusterBinding

from clusterra_scaler.planner.placement.family_policy import FamilyPolicy
from clusterra_scaler.planner.placement.packing_policy import PackingPolicy
from clusterra_scaler.planner.placement.policy import Policy

POLICIES: Mapping[str, Policy] = {"family": FamilyPolicy(), "packing": PackingPolicy()}


def policy_of(binding: ClusterBinding) -> Policy:
    """The policy of a cluster."""
    return POLICIES[binding.policy.name]
