"""The own network of a real node: a network namespace in which Services have addresses and names.

kube-proxy and CoreDNS run inside, so the machine gets no firewall rule, and the namespace ends with the node. One link
leads to the machine, which reaches the pods and the Services through it. Nothing is routed beyond the machine.
"""

import json
from pathlib import Path

from clusterra_lab.kube.certificates import Authority
from clusterra_lab.kube.kubeconfig import certificate_user, write_kubeconfig
from clusterra_lab.kube.node_number import NodeNotPossible, NodeNumber, call

CLUSTER_DOMAIN = "cluster.local"
MACHINE_NAME = "machine.localhost"
"""This machine's name for pods. Names below `localhost` count as local (RFC 6761), so plain HTTP to it is accepted."""
SCRIPT = "network.sh"
"""The part of the node's start script that sets the network up, in the node's folder."""

NETWORK_PROGRAMS = ("iptables", "iptables-restore", "iptables-save")
"""Programs of the machine that an own network needs."""

_DNS_USER = "system:coredns"


async def connect(number: NodeNumber, pid: int) -> None:
    """Link this machine with the network namespace of a process, where `SCRIPT` waits for it. Raises NodeNotPossible.

    The link disappears with the namespace.
    """
    link, via = number.bridge, ("dev", number.bridge, "src", number.machine_address)
    for argv in (
        ("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid)),
        ("link", "set", link, "up"),
        ("route", "add", f"{number.address}/32", *via),
        ("route", "add", number.pods, "via", number.address, "onlink", *via),
        ("route", "add", number.site.services, "via", number.address, "onlink", *via),
    ):
        if complaint := await call("ip", *argv):
            raise NodeNotPossible(f"the link to the node's network cannot be made (ip {' '.join(argv)}): {complaint}")


def write_network(folder: Path, number: NodeNumber, *, name: str, url: str, authority: Authority) -> None:
    """Write `SCRIPT` and the configuration of kube-proxy and CoreDNS into the node's folder."""
    for file, user in (("proxy.kubeconfig", "system:kube-proxy"), ("dns.kubeconfig", _DNS_USER)):
        credentials = certificate_user(authority.client(user))
        write_kubeconfig(folder / file, url=url, authority=authority.certificate, user=credentials)
    (folder / "proxy.json").write_text(json.dumps(_kube_proxy(folder, number, name), indent=2))
    (folder / "Corefile").write_text(_corefile(folder, number))
    (folder / SCRIPT).write_text(_script(folder, number))


def dns_rights() -> dict[str, object]:
    """The rights of CoreDNS, as its own manifests grant them; those of kube-proxy exist in every cluster."""
    group = "rbac.authorization.k8s.io"
    metadata = {"name": _DNS_USER}
    reads = {"verbs": ["list", "watch"]}
    rules = [
        {"apiGroups": [""], "resources": ["services", "namespaces"], **reads},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], **reads},
    ]
    role = {"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": metadata,
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": _DNS_USER},
        "subjects": [{"apiGroup": group, "kind": "User", "name": _DNS_USER}],
    }
    return {"apiVersion": "v1", "kind": "List", "items": [role, binding]}


def _script(folder: Path, number: NodeNumber) -> str:
    return f"""\
until ip link show eth0 > /dev/null 2>&1; do sleep 0.02; done
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
ip address add {number.address}/32 dev eth0
ip link set eth0 up
ip route add {number.machine_address}/32 dev eth0 src {number.address}
# Programs on the node's own network reach Services too: kube-proxy rewrites the address before a packet leaves.
ip route add {number.site.services} dev eth0 src {number.address}
kube-proxy --config {folder}/proxy.json >> {folder}/kube-proxy.log 2>&1 &
coredns -conf {folder}/Corefile >> {folder}/coredns.log 2>&1 &
"""


def _kube_proxy(folder: Path, number: NodeNumber, name: str) -> dict[str, object]:
    """kube-proxy's configuration. It leaves the settings of connection tracking, which belong to the machine."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": name,
        "bindAddress": number.address,
        "healthzBindAddress": f"{number.address}:10256",
        "metricsBindAddress": "127.0.0.1:10249",
        "clusterCIDR": number.pods,
        "clientConnection": {"kubeconfig": f"{folder}/proxy.kubeconfig"},
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        "iptables": {"minSyncPeriod": "0.2s"},
    }


def _corefile(folder: Path, number: NodeNumber) -> str:
    return f"""\
.:53 {{
    bind {number.address}
    errors
    hosts {{
        ttl 5
        {number.machine_address} {MACHINE_NAME}
        fallthrough
    }}
    kubernetes {CLUSTER_DOMAIN} {{
        kubeconfig {folder}/dns.kubeconfig
        ttl 5
    }}
    cache 5
}}
"""
