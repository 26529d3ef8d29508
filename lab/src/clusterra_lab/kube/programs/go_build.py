"""Builds programs from Go modules, each pinned by a go.mod and a go.sum in `lab/kube`."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from clusterra_lab.kube.programs.build_step import BinariesNotBuilt, step

_MODULES = Path(__file__).parents[4] / "kube"
_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -trimpath -buildvcs=false", "GOWORK": "off"}


@dataclass(frozen=True)
class GoModule:
    """A folder of `lab/kube` and the programs built from it."""

    name: str
    programs: Mapping[str, str]
    """Program -> its Go package."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Go variable -> the value that the linker sets."""

    @property
    def recipe(self) -> bytes:
        """Cache key: with one Go compiler, equal recipes yield equal programs."""
        sources = sorted([*self._folder.glob("go.*"), *self._folder.rglob("*.go")])
        pins = b"\0".join(source.read_bytes() for source in sources)
        return pins + repr((self.programs, self._linker_flags, _ENVIRONMENT)).encode()

    @property
    def possible(self) -> bool:
        """Whether Go is installed."""
        return shutil.which("go") is not None

    async def make(self, program: str, workshop: Path, *, log: Path) -> Path:
        """Build one program into an empty folder. Raises BinariesNotBuilt."""
        if not self.possible:
            raise BinariesNotBuilt(
                f"{program} is built from its Go module, and this machine has no 'go': install the Go version of "
                f"{self._folder / 'go.mod'} or a newer one, or name a folder with the Kubernetes programs in "
                "KUBEBUILDER_ASSETS"
            )
        target = workshop / program
        await step(
            ["go", "build", "-ldflags", self._linker_flags, "-o", str(target), self.programs[program]],
            log=log,
            cwd=self._folder,
            env=_ENVIRONMENT,
            hint="The build needs access to the module proxy that Go is configured for (go env GOPROXY).",
        )
        return target

    @property
    def _folder(self) -> Path:
        return _MODULES / self.name

    @property
    def _linker_flags(self) -> str:
        return " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in self.variables.items())])


_KUBERNETES = ("kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet")
_VERSION = "k8s.io/component-base/version"
_CONTAINERD = "github.com/containerd/containerd/v2/cmd"
_CNI = "github.com/containernetworking/plugins/plugins"

KUBERNETES = GoModule(
    "kubernetes",
    {program: f"k8s.io/kubernetes/cmd/{program}" for program in _KUBERNETES},
    {f"{_VERSION}.gitVersion": "v1.36.3", f"{_VERSION}.gitMajor": "1", f"{_VERSION}.gitMinor": "36"},
)
ETCD = GoModule("etcd", {"etcd": "go.etcd.io/etcd/server/v3"})
KWOK = GoModule("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})
COREDNS = GoModule("coredns", {"coredns": "."})
"""CoreDNS with the plugins that answer for Services, and no others."""
NODE = GoModule(
    "node",
    {
        **{program: f"{_CONTAINERD}/{program}" for program in ("containerd", "containerd-shim-runc-v2", "ctr")},
        "bridge": f"{_CNI}/main/bridge",
        "loopback": f"{_CNI}/main/loopback",
        "host-local": f"{_CNI}/ipam/host-local",
        "pause": "./pause",
    },
)
"""containerd, the CNI plugins, and the lab's own first process for pod sandboxes."""
OTELCOL = GoModule("otelcol", {"otelcol": "."})
"""The OpenTelemetry Collector with an OTLP receiver and an exporter into a file."""
