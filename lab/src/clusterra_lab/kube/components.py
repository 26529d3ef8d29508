"""The processes of a control plane: their ports, files and command lines."""

import ipaddress
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from clusterra_lab.kube.certificates import Authority, Pair, signing_keys
from clusterra_lab.kube.kubeconfig import certificate_user, write_kubeconfig
from clusterra_lab.machine.secret_file import write_secret

HOST = "127.0.0.1"
NODE_GRACE_SECONDS = 120
"""Seconds without a heartbeat after which a node counts as lost. On a busy machine KWOK is late by more than ten
seconds, and it never makes the pods of a lost node ready again."""

_UNTHROTTLED = ("--kube-api-qps=1000", "--kube-api-burst=2000")
"""Client limits of the controllers and the scheduler. The default allows twenty pods a second."""

_API_SERVER_NAMES = (HOST, "localhost", "kubernetes.default.svc", "kubernetes.default", "kubernetes")
_CONTROLLERS = (
    "clusterrole-aggregation-controller",
    "deployment-controller",
    "disruption-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "namespace-controller",
    "node-lifecycle-controller",
    "persistentvolume-binder-controller",
    "pod-garbage-collector-controller",
    "replicaset-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "statefulset-controller",
    "taint-eviction-controller",
)
"""The controllers that a lab needs. Each one costs memory and start time."""


@dataclass(frozen=True)
class Ports:
    """The ports of a control plane."""

    api_server: int
    etcd: int
    etcd_peer: int
    scheduler: int


@dataclass(frozen=True)
class Site:
    """Where the API server is, and which addresses Services get."""

    address: str = HOST
    """Where the API server listens; everything else listens on HOST."""
    services: str = "10.96.0.0/16"
    """The network of the Services' cluster addresses."""

    @property
    def names(self) -> list[str]:
        """The names and addresses of the API server, also those of the Service `kubernetes`."""
        first = str(next(ipaddress.ip_network(self.services).hosts()))
        return [self.address, first, *_API_SERVER_NAMES]


LOOPBACK = Site()


@dataclass(frozen=True)
class Components:
    """The command lines of one control plane; the files in them are written by `prepare`."""

    programs: Path
    directory: Path
    ports: Ports
    site: Site = LOOPBACK

    @property
    def url(self) -> str:
        """The URL of the API server."""
        return f"https://{self.site.address}:{self.ports.api_server}"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.directory / "admin.kubeconfig"

    def prepare(self) -> Authority:
        """Remove the state of earlier runs, write new certificates and keys, and return the API server's authority.

        The keys of the authorities are not written. etcd has an authority of its own, because its clients may do
        everything.
        """
        shutil.rmtree(self._state, ignore_errors=True)
        authority, of_etcd = Authority.new("kubernetes"), Authority.new("etcd")
        write_secret(self._file("authority.crt"), authority.certificate)
        write_secret(self._file("etcd-authority.crt"), of_etcd.certificate)
        self._write("etcd", of_etcd.server("etcd", [HOST]))
        self._write("etcd-client", of_etcd.client("kube-apiserver"))
        self._write("api-server", authority.server("kube-apiserver", self.site.names))
        self._write("scheduler", authority.server("kube-scheduler", [HOST]))
        self._write("kubelet-client", authority.client("kube-apiserver-kubelet-client", "system:masters"))
        private, public = signing_keys()
        write_secret(self._file("tokens.key"), private)
        write_secret(self._file("tokens.pub"), public)
        administrator = authority.client("administrator", "system:masters")
        scheduler = authority.client("system:kube-scheduler")
        for path, pair in ((self.kubeconfig, administrator), (self._scheduler_kubeconfig, scheduler)):
            write_kubeconfig(path, url=self.url, authority=authority.certificate, user=certificate_user(pair))
        return authority

    def etcd(self) -> Sequence[str]:
        """Command line of etcd, without fsync: nothing needs its state after the run."""
        clients, peers = f"https://{HOST}:{self.ports.etcd}", f"https://{HOST}:{self.ports.etcd_peer}"
        return (
            str(self.programs / "etcd"),
            f"--data-dir={self._state}",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            *(
                flag
                for listener in ("", "peer-")
                for flag in (
                    f"--{listener}cert-file={self._file('etcd.crt')}",
                    f"--{listener}key-file={self._file('etcd.key')}",
                    f"--{listener}trusted-ca-file={self._file('etcd-authority.crt')}",
                    f"--{listener}client-cert-auth",
                )
            ),
            "--unsafe-no-fsync",
            # The gateway would call etcd with a server certificate and log each rejection.
            "--enable-grpc-gateway=false",
            "--log-level=warn",
        )

    def api_server(self) -> Sequence[str]:
        """Command line of the API server, with the default admission plugins, which enforce PodSecurity and quotas."""
        return (
            str(self.programs / "kube-apiserver"),
            f"--bind-address={self.site.address}",
            f"--secure-port={self.ports.api_server}",
            f"--advertise-address={self.site.address}",
            # An API server on loopback cannot be an endpoint of the Service `kubernetes`.
            f"--endpoint-reconciler-type={'none' if self.site.address == HOST else 'lease'}",
            f"--service-cluster-ip-range={self.site.services}",
            f"--etcd-servers=https://{HOST}:{self.ports.etcd}",
            f"--etcd-cafile={self._file('etcd-authority.crt')}",
            f"--etcd-certfile={self._file('etcd-client.crt')}",
            f"--etcd-keyfile={self._file('etcd-client.key')}",
            # With WatchList, controllers sometimes received nothing for minutes after an API server's restart.
            "--feature-gates=WatchList=false",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            "--delete-collection-workers=8",
            f"--client-ca-file={self._file('authority.crt')}",
            f"--tls-cert-file={self._file('api-server.crt')}",
            f"--tls-private-key-file={self._file('api-server.key')}",
            f"--kubelet-certificate-authority={self._file('authority.crt')}",
            f"--kubelet-client-certificate={self._file('kubelet-client.crt')}",
            f"--kubelet-client-key={self._file('kubelet-client.key')}",
            "--kubelet-preferred-address-types=InternalIP",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._file('tokens.pub')}",
            f"--service-account-signing-key-file={self._file('tokens.key')}",
        )

    def controller_manager(self) -> Sequence[str]:
        """Command line of the controller manager, without a port.

        It acts as the administrator: with separate credentials for each controller it starts five seconds later.
        """
        return (
            str(self.programs / "kube-controller-manager"),
            "--secure-port=0",
            f"--kubeconfig={self.kubeconfig}",
            f"--controllers={','.join(_CONTROLLERS)}",
            f"--root-ca-file={self._file('authority.crt')}",
            f"--service-account-private-key-file={self._file('tokens.key')}",
            "--node-monitor-period=1s",
            *_UNTHROTTLED,
            f"--node-monitor-grace-period={NODE_GRACE_SECONDS}s",
            "--leader-elect=false",
        )

    def scheduler(self) -> Sequence[str]:
        """Command line of the scheduler; its port serves `/readyz`."""
        return (
            str(self.programs / "kube-scheduler"),
            f"--bind-address={HOST}",
            f"--secure-port={self.ports.scheduler}",
            f"--tls-cert-file={self._file('scheduler.crt')}",
            f"--tls-private-key-file={self._file('scheduler.key')}",
            f"--kubeconfig={self._scheduler_kubeconfig}",
            *_UNTHROTTLED,
            "--leader-elect=false",
        )

    @property
    def _state(self) -> Path:
        return self.directory / "etcd"

    @property
    def _scheduler_kubeconfig(self) -> Path:
        return self.directory / "scheduler.kubeconfig"

    def _file(self, name: str) -> Path:
        return self.directory / "certificates" / name

    def _write(self, name: str, pair: Pair) -> None:
        write_secret(self._file(f"{name}.crt"), pair.certificate)
        write_secret(self._file(f"{name}.key"), pair.key)
