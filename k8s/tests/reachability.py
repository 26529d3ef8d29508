"""Who may reach whom by NetworkPolicies (networking.k8s.io/v1), for pods and for addresses outside the cluster.

The rules: a pod that no policy selects for a direction is open in it; else something passes if any policy that selects
the pod allows it. A connection between pods needs both ends' consent.
"""

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

type Labels = Mapping[str, str]
type Policy = Mapping[str, Any]
type Direction = Literal["Ingress", "Egress"]


@dataclass(frozen=True)
class Pod:
    """A pod, as policies see it. Its address is of no network that an ipBlock of ours names."""

    name: str
    namespace: str
    labels: Labels = field(hash=False)
    namespace_labels: Labels = field(hash=False)


@dataclass(frozen=True)
class Address:
    """Somebody outside the cluster."""

    name: str
    address: str


type End = Pod | Address


def reaches(policies: Sequence[Policy], source: End, target: End, port: int, protocol: str = "TCP") -> bool:
    """Whether a connection may be opened."""
    return (not isinstance(source, Pod) or _allows(policies, "Egress", source, target, port, protocol)) and (
        not isinstance(target, Pod) or _allows(policies, "Ingress", target, source, port, protocol)
    )


def _allows(policies: Sequence[Policy], direction: Direction, pod: Pod, other: End, port: int, protocol: str) -> bool:
    selecting = [policy for policy in policies if _selects_pod(policy, direction, pod)]
    return not selecting or any(
        _rule_allows(policy["metadata"]["namespace"], rule, direction, other, port, protocol)
        for policy in selecting
        for rule in policy["spec"].get(direction.lower()) or ()
    )


def _selects_pod(policy: Policy, direction: Direction, pod: Pod) -> bool:
    spec = policy["spec"]
    return (
        policy["metadata"]["namespace"] == pod.namespace
        and direction in spec["policyTypes"]
        and selects(spec["podSelector"], pod.labels)
    )


def _rule_allows(
    namespace: str, rule: Mapping[str, Any], direction: Direction, other: End, port: int, protocol: str
) -> bool:
    peers = rule.get("from" if direction == "Ingress" else "to")
    ports = rule.get("ports")
    return (peers is None or any(_peer_is(namespace, peer, other) for peer in peers)) and (
        ports is None or any(_port_is(allowed, port, protocol) for allowed in ports)
    )


def _peer_is(namespace: str, peer: Mapping[str, Any], other: End) -> bool:
    if "ipBlock" in peer:
        block = peer["ipBlock"]
        return isinstance(other, Address) and in_block(other.address, block["cidr"], block.get("except", ()))
    if not isinstance(other, Pod):
        return False
    if "namespaceSelector" in peer:
        if not selects(peer["namespaceSelector"], other.namespace_labels):
            return False
    elif other.namespace != namespace:
        return False
    return selects(peer.get("podSelector", {}), other.labels)


def _port_is(allowed: Mapping[str, Any], port: int, protocol: str) -> bool:
    if allowed.get("protocol", "TCP") != protocol:
        return False
    first = allowed.get("port")
    if first is None:
        return True
    assert isinstance(first, int), "named ports would need the pod's container ports"
    return first <= port <= int(allowed.get("endPort", first))


def in_block(address: str, cidr: str, excluded: Iterable[str]) -> bool:
    """Whether an address is in a network and in none of the excluded ones."""
    given = ipaddress.ip_address(address)
    return given in ipaddress.ip_network(cidr) and not any(given in ipaddress.ip_network(each) for each in excluded)


def selects(selector: Mapping[str, Any], labels: Labels) -> bool:
    """Whether a label selector (meta/v1) selects these labels. An empty one selects everything."""
    return all(labels.get(key) == value for key, value in selector.get("matchLabels", {}).items()) and all(
        _holds(requirement, labels) for requirement in selector.get("matchExpressions", ())
    )


def _holds(requirement: Mapping[str, Any], labels: Labels) -> bool:
    key, values = requirement["key"], requirement.get("values", ())
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    raise ValueError(f"unknown operator {requirement['operator']}")
