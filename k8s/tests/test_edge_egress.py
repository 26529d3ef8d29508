"""Where the jobs of an edge may connect to, by the policies of k8s/edge and the one of a site's egress file.

The policies are evaluated by Kubernetes' own rules (`reachability`). Whether a network plugin enforces them is its own.
"""

import json
import re
import subprocess
import sys
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from central_manifests import CENTRAL
from clusterra_edge_agent.kubernetes.egress import METADATA, Egress, EgressInvalid, policy, read
from hypothesis import given
from hypothesis import strategies as st
from reachability import Address, Pod, Policy, in_block, reaches

EDGE = CENTRAL.parent / "edge"
NAMESPACE = {"kubernetes.io/metadata.name": "slurm"}
WORKER = Pod("worker", "slurm", {"app.kubernetes.io/name": "slurmd"}, NAMESPACE)
AGENT = Pod("agent", "slurm", {"app.kubernetes.io/name": "edge-agent"}, NAMESPACE)
DNS = Pod("dns", "kube-system", {"k8s-app": "kube-dns"}, {"kubernetes.io/metadata.name": "kube-system"})
SLURMCTLD = Address("slurmctld", "192.0.2.10")
INTERNET = Address("internet", "203.0.113.7")
INTERNET_6 = Address("internet", "2001:db8::7")
OWN = Address("own", "10.50.1.2")
CLOSED = [Address("metadata", each) for each in ("169.254.169.254", "fd00:ec2::254", "fe80::1")]


def policies(given: dict[str, Any]) -> list[Policy]:
    """All policies of the namespace, for an egress file with this content."""
    base: list[Policy] = list(yaml.safe_load_all((EDGE / "base" / "network.yaml").read_text()))
    return [*base, policy(Egress.model_validate(given))]


def reached(given: dict[str, Any], source: Pod, target: Address, port: int, protocol: str = "TCP") -> bool:
    return reaches(policies(given), source, target, port, protocol)


def of_files(*names: str) -> list[Policy]:
    """The policies in files of k8s/edge."""
    return [each for name in names for each in yaml.safe_load_all((EDGE / name).read_text())]


def test_sessions_open_the_workers_ports_to_the_agent_alone() -> None:
    before = of_files("base/network.yaml", "agent/network.yaml")
    after = [*before, *of_files("sessions/network.yaml")]
    stranger = Pod("stranger", "default", AGENT.labels, {"kubernetes.io/metadata.name": "default"})
    other = Pod("other", "slurm", {"app.kubernetes.io/name": "other"}, NAMESPACE)
    ends: tuple[Pod | Address, ...] = (WORKER, AGENT, DNS, SLURMCTLD, INTERNET, OWN, stranger, other, *CLOSED)
    ports = (22, 443, 1023, 1024, 6817, 6818, 6819, 8080, 8888, 65535)

    opened = {
        (source, target, port)
        for source in ends
        for target in ends
        for port in ports
        if reaches(after, source, target, port) and not reaches(before, source, target, port)
    }

    assert opened == {(AGENT, WORKER, port) for port in (1024, 6817, 6819, 8080, 8888, 65535)}
    assert not reaches(after, AGENT, WORKER, 8888, "UDP")


@pytest.mark.parametrize("given", [{}, {"egress": "cluster-only"}], ids=["empty", "cluster-only"])
def test_by_default_jobs_reach_slurm_and_dns_alone(given: dict[str, Any]) -> None:
    assert reached(given, WORKER, SLURMCTLD, 6817)
    assert reaches(policies(given), WORKER, WORKER, 40000)
    assert reaches(policies(given), WORKER, DNS, 53, "UDP")
    assert not any(reached(given, WORKER, each, 443) for each in (INTERNET, INTERNET_6, OWN, *CLOSED))


def test_open_lets_jobs_reach_all_but_the_metadata_service_and_the_excepted_networks() -> None:
    given = {"egress": "open", "except": ["10.0.0.0/8"]}

    assert reached(given, WORKER, INTERNET, 443)
    assert reached(given, WORKER, INTERNET_6, 53, "UDP")
    assert not any(reached(given, WORKER, each, 80) for each in (OWN, *CLOSED))
    assert not reached(given, AGENT, INTERNET, 443), "the policy is for workers alone"


def test_listed_lets_jobs_reach_the_listed_networks_on_the_listed_ports_alone() -> None:
    given = {
        "egress": "listed",
        "to": [
            {"cidr": "10.50.0.0/16", "ports": [{"port": 443}, {"port": 8000, "end_port": 8010, "protocol": "UDP"}]},
            {"cidr": "203.0.113.7/32"},
        ],
        "except": ["10.50.9.0/24"],
    }

    assert reached(given, WORKER, OWN, 443)
    assert reached(given, WORKER, OWN, 8010, "UDP")
    assert reached(given, WORKER, INTERNET, 22)
    assert not reached(given, WORKER, OWN, 8010)
    assert not reached(given, WORKER, OWN, 80)
    assert not reached(given, WORKER, Address("closed", "10.50.9.1"), 443)
    assert not reached(given, WORKER, INTERNET_6, 443)


NETWORKS = st.builds(
    lambda address, length: str(IPv4Network((address, length), strict=False)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 32),
).filter(lambda cidr: not IPv4Network(cidr).subnet_of(IPv4Network("169.254.0.0/16")))


@given(st.lists(NETWORKS, min_size=1, max_size=3), st.lists(NETWORKS, max_size=3), st.integers(0, 2**32 - 1))
def test_no_file_opens_more_than_its_networks_and_none_the_metadata_service(
    to: list[str], closed: list[str], number: int
) -> None:
    closed = [each for each in closed if not any(IPv4Network(cidr).subnet_of(IPv4Network(each)) for cidr in to)]
    given: dict[str, Any] = {"egress": "listed", "to": [{"cidr": cidr} for cidr in to], "except": closed}
    anywhere = Address("anywhere", str(IPv4Network(number).network_address))

    allowed = reaches([policy(Egress.model_validate(given))], WORKER, anywhere, 443)

    assert allowed == any(
        in_block(anywhere.address, cidr, [*closed, *(str(each) for each in METADATA if each.version == 4)])
        for cidr in to
    )
    assert not any(reached(given, WORKER, each, 80) for each in CLOSED)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("egress: closed", "'cluster-only', 'listed' or 'open'"),
        ("egress: listed", "`to` must have a network at least"),
        ("to: [{cidr: 10.0.0.0/8}]", "`to` has no meaning with `egress: cluster-only`"),
        ("{egress: open, to: [{cidr: 10.0.0.0/8}]}", "`to` has no meaning with `egress: open`"),
        ("except: [10.0.0.0/8]", "`except` has no meaning"),
        ("{egress: listed, to: [{cidr: 10}]}", "CIDR notation"),
        ("{egress: listed, to: [{cidr: 10.0.0.1}]}", "CIDR notation"),
        ("{egress: listed, to: [{cidr: 10.0.0.1/8}]}", "host bits set"),
        ("{egress: listed, to: [{cidr: 10.0.0.0/8, ports: [{port: 0}]}]}", "greater than or equal to 1"),
        ("{egress: listed, to: [{cidr: 10.0.0.0/8, ports: [{port: 9, end_port: 8}]}]}", "end_port 8 is less"),
        ("{egress: listed, to: [{cidr: 10.0.0.0/8, ports: [443]}]}", "to.0.ports.0"),
        ("{egress: listed, to: [{cidr: 169.254.169.254/32}]}", "metadata service"),
        ("{egress: listed, to: [{cidr: 10.1.0.0/16}], except: [10.0.0.0/8]}", "remove one of the two"),
        ("{egress: open, excepted: [10.0.0.0/8]}", "Extra inputs are not permitted"),
        ("[open]", "no egress file"),
        ("egress: [", "not valid YAML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(given: str, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "egress.yaml"
    file.write_text(given)

    with pytest.raises(EgressInvalid, match=re.escape(reason)):
        read(file)


def test_a_missing_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge.yaml"
    huge.write_text("#" * ((1 << 20) + 1))

    with pytest.raises(EgressInvalid, match="No such file"):
        read(tmp_path / "none.yaml")
    with pytest.raises(EgressInvalid, match="at most 1048576 bytes"):
        read(huge)


def test_the_readmes_egress_file_is_rendered_by_the_readmes_command(tmp_path: Path) -> None:
    readme = (EDGE / "README.md").read_text()
    (example,) = (text for text in re.findall(r"```yaml\n(.+?)```", readme, re.DOTALL) if text.startswith("egress:"))
    file = tmp_path / "egress.yaml"
    file.write_text(example)
    command = [sys.executable, "-m", "clusterra_edge_agent.kubernetes.egress", "render", str(file)]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout) == policy(read(file))


def test_the_published_schema_is_that_of_the_model() -> None:
    assert json.loads((EDGE / "egress.schema.json").read_text())["title"] == "Egress"
