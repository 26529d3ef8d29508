"""Configuration of a real node: the start script, containerd, kubelet and the network of the pods."""

import json
from pathlib import Path

from clusterra_lab.kube.certificates import Authority
from clusterra_lab.kube.kubeconfig import certificate_user, write_kubeconfig
from clusterra_lab.kube.node_network import CLUSTER_DOMAIN, SCRIPT, write_network
from clusterra_lab.kube.node_number import NodeNumber
from clusterra_lab.machine.secret_file import write_secret

PAUSE_IMAGE = "lab.clusterra.dev/pause:1"

_SYSCTLS = {
    "kernel/keys/root_maxbytes": "25000000",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "net/ipv4/ip_forward": "1",
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
}
"""Values that kubelet and the bridge plugin expect. They would set them for the whole machine if they read others, so
the node sees files with these values."""

INSIDE = f"""\
set -eu
programs=$1 folder=$2; shift 2
export PATH="$programs:$PATH"
mount -t proc proc /proc
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs tmpfs /var/log
mkdir -p /var/lib/cni
mount -t tmpfs tmpfs /var/lib/cni
[ ! -e "$folder/{SCRIPT}" ] || . "$folder/{SCRIPT}"
mkdir /run/kubelet /run/sysctl
mount --bind "$folder/kubelet" /run/kubelet
for wanted in {" ".join(f"{name}={value}" for name, value in _SYSCTLS.items())}; do
  file=/run/sysctl/$(echo "${{wanted%=*}}" | tr / .)
  echo "${{wanted#*=}}" > "$file"
  [ ! -e "/proc/sys/${{wanted%=*}}" ] || mount --bind "$file" "/proc/sys/${{wanted%=*}}"
done
containerd --config "$folder/containerd.toml" >> "$folder/containerd.log" 2>&1 &
containerd=$!
until ctr version > /dev/null 2>&1; do
  kill -0 $containerd || {{ tail -n 20 "$folder/containerd.log"; exit 1; }}
  sleep 0.05
done
for image; do
  ctr --namespace k8s.io images import --local "$image" >> "$folder/containerd.log" 2>&1 ||
    {{ echo "$image cannot be imported"; tail -n 5 "$folder/containerd.log"; exit 1; }}
done
kubelet --config "$folder/kubelet.json" --kubeconfig "$folder/kubeconfig" --root-dir /run/kubelet \\
  --hostname-override "$NODE_NAME" --node-ip "$NODE_ADDRESS" --node-labels "$NODE_LABELS" \\
  >> "$folder/kubelet.log" 2>&1 &
wait -n || true
tail -n 20 "$folder/containerd.log" "$folder/kubelet.log"
exit 1
"""
"""Script of the first process in the node's namespaces. It needs bash, which also reaps orphans of the containers."""


def write_config(
    folder: Path, programs: Path, number: NodeNumber, *, name: str, url: str, authority: Authority
) -> None:
    """Write all files that `INSIDE` reads into `folder`."""
    (folder / "kubelet").mkdir(parents=True)
    (folder / "cni").mkdir()
    client = authority.client(f"system:node:{name}", "system:nodes")
    user = certificate_user(client)
    write_kubeconfig(folder / "kubeconfig", url=url, authority=authority.certificate, user=user)
    server = authority.server(name, [number.address, name])
    write_secret(folder / "server.crt", server.certificate)
    write_secret(folder / "server.key", server.key)
    write_secret(folder / "authority.crt", authority.certificate)
    (folder / "containerd.toml").write_text(_containerd(folder, programs))
    (folder / "cni" / "10-lab.conflist").write_text(json.dumps(_network(folder, number)))
    (folder / "kubelet.json").write_text(json.dumps(_kubelet(folder, number), indent=2))
    if number.own_network:
        write_network(folder, number, name=name, url=url, authority=authority)


def _containerd(folder: Path, programs: Path) -> str:
    """containerd's configuration.

    `restrict_oom_score_adj` is set because lowering an oom_score_adj needs CAP_SYS_RESOURCE.
    """
    return f"""\
version = 3
root = "{folder}/containerd"
state = "/run/containerd/state"
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
address = "/run/containerd/containerd.sock"
[plugins.'io.containerd.internal.v1.opt']
path = "{folder}/opt"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{PAUSE_IMAGE}"
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{programs}"]
conf_dir = "{folder}/cni"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{programs}/runc"
SystemdCgroup = false
"""


def _network(folder: Path, number: NodeNumber) -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "dataDir": f"{folder}/addresses",
        "ranges": [[{"subnet": number.pods}]],
        # Pods reach the node's address and nothing beyond it, or what the node's own network routes.
        "routes": [{"dst": "0.0.0.0/0" if number.own_network else f"{number.address}/32"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": number.bridge,
        "isGateway": True,
        "ipMasq": False,
        # A pod may be an endpoint of a Service that it calls.
        "hairpinMode": True,
        "ipam": addresses,
    }
    return {"cniVersion": "1.0.0", "name": "lab", "plugins": [bridge]}


def _kubelet(folder: Path, number: NodeNumber) -> dict[str, object]:
    """kubelet's configuration: short heartbeats, no cleanup of this machine's disk, and no names from outside."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": number.address,
        "healthzBindAddress": number.address,
        "readOnlyPort": 0,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{folder}/authority.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{folder}/server.crt",
        "tlsPrivateKeyFile": f"{folder}/server.key",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{number.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        **({"clusterDNS": [number.address], "clusterDomain": CLUSTER_DOMAIN} if number.own_network else {}),
        "podLogsDir": f"{folder}/pods",
        "volumePluginDir": f"{folder}/volume-plugins",
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,
        "imageGCLowThresholdPercent": 99,
        "enforceNodeAllocatable": ["pods"],
        "serializeImagePulls": False,
        "nodeLeaseDurationSeconds": 4,
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "10s",
    }
