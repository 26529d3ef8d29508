"""The evaluator of network policies: Kubernetes' own rules, as properties."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from reachability import Address, Pod, in_block, reaches, selects

KEYS, VALUES = st.sampled_from("ab"), st.sampled_from("xy")
LABELS = st.dictionaries(KEYS, VALUES)
SELECTORS = st.fixed_dictionaries({"matchLabels": LABELS})
PORTS = st.integers(1, 9)
NAMESPACES = st.sampled_from(["n", "m"])
PODS = st.builds(lambda namespace, labels: Pod("p", namespace, labels, {"name": namespace}), NAMESPACES, LABELS)
PEERS = st.one_of(
    st.builds(lambda pods: {"podSelector": pods}, SELECTORS),
    st.builds(
        lambda space, pods: {"namespaceSelector": {"matchLabels": {"name": space}}, "podSelector": pods},
        NAMESPACES,
        SELECTORS,
    ),
    st.just({"ipBlock": {"cidr": "192.0.2.0/24"}}),
)
RULES = st.lists(
    st.builds(lambda peers, port: (peers, port), st.lists(PEERS, min_size=1, max_size=2), PORTS), max_size=2
)


@st.composite
def policies(draw: st.DrawFn) -> list[dict[str, Any]]:
    return [
        {
            "metadata": {"namespace": draw(NAMESPACES)},
            "spec": {
                "podSelector": draw(SELECTORS),
                "policyTypes": ["Ingress", "Egress"],
                "ingress": [{"from": peers, "ports": [{"port": port}]} for peers, port in draw(RULES)],
                "egress": [{"to": peers, "ports": [{"port": port}]} for peers, port in draw(RULES)],
            },
        }
        for _ in range(draw(st.integers(0, 3)))
    ]


def denial(namespace: str) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace}, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}}


@given(PODS, PODS, PORTS)
def test_without_policies_everything_passes(source: Pod, target: Pod, port: int) -> None:
    assert reaches([], source, target, port)


@given(PODS, PODS, PORTS)
def test_a_default_denial_at_either_end_stops_everything(source: Pod, target: Pod, port: int) -> None:
    assert not reaches([denial(source.namespace)], source, target, port)
    assert not reaches([denial(target.namespace)], source, target, port)


@given(policies(), policies(), PODS, PODS, PORTS)
def test_under_a_default_denial_more_policies_never_allow_less(
    some: list[dict[str, Any]], more: list[dict[str, Any]], source: Pod, target: Pod, port: int
) -> None:
    base = [denial("n"), denial("m"), *some]

    assert not reaches(base, source, target, port) or reaches([*base, *more], source, target, port)


@given(policies(), PODS, PODS, PORTS)
def test_order_and_repetition_of_policies_do_not_matter(
    some: list[dict[str, Any]], source: Pod, target: Pod, port: int
) -> None:
    assert reaches(some, source, target, port) == reaches([*reversed(some), *some], source, target, port)


@given(policies(), PODS, PORTS)
def test_an_address_outside_needs_only_the_pods_consent(some: list[dict[str, Any]], pod: Pod, port: int) -> None:
    inside, outside = Address("in", "192.0.2.7"), Address("out", "198.51.100.7")

    assert reaches(some, inside, outside, port), "no policy of ours is asked"
    if reaches([denial("n"), denial("m"), *some], outside, pod, port):
        raise AssertionError("no rule names that network")


@given(SELECTORS, LABELS, LABELS)
def test_a_selector_that_selects_labels_selects_more_labels(
    selector: dict[str, Any], labels: dict[str, str], more: dict[str, str]
) -> None:
    assert not selects(selector, labels) or selects(selector, {**more, **labels})


def test_excluded_networks_are_not_in_a_block() -> None:
    assert in_block("203.0.113.1", "0.0.0.0/0", ["10.0.0.0/8"])
    assert not in_block("10.1.2.3", "0.0.0.0/0", ["10.0.0.0/8"])
