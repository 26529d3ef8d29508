"""The lab's overlay of k8s/central/overlays/dev: addresses, image tags and Secrets; the Deployments stay the same.

The services' Service network is `10.253.N.0/24`; the gateway and NATS get fixed addresses in it, which this machine
reaches too.
"""

import ipaddress
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clusterra_lab.central.images import REPOSITORY
from clusterra_lab.kube.objects import host_volume, secret

NAMESPACE = "clusterra"
MANIFESTS = REPOSITORY / "k8s" / "central"
UID = 65532
"""The user that the services and NATS run as."""
JWT_KEYS = "/etc/clusterra/proxy-jwt-keys"
OIDC = "/etc/clusterra/gateway-oidc"
_CLIENT_SECRET = "client-secret"
_SHARED = ("gateway", "proxy", "scaler", "events", "authority", "admin", "tables", "topology")
"""ConfigMaps that get the settings which the services share in the dev overlay."""


@dataclass(frozen=True)
class CentralSite:
    """What the lab's overlay sets."""

    folder: Path
    """Folder for the overlay and for the volume of NATS."""
    services: str
    """The network of the Services' cluster addresses."""
    tag: str
    """The tag of the services' images."""

    @property
    def gateway(self) -> str:
        """The gateway's cluster address."""
        return self._address(10)

    @property
    def nats(self) -> str:
        """The cluster address of NATS."""
        return self._address(11)

    @property
    def gateway_url(self) -> str:
        """The gateway as this machine and pods reach it."""
        return f"http://{self.gateway}:8080"

    @property
    def nats_url(self) -> str:
        """NATS as this machine and pods reach it."""
        return f"nats://{self.nats}:4222"

    def _address(self, number: int) -> str:
        return str(ipaddress.ip_network(self.services)[number])


def write_overlay(site: CentralSite, secrets: Path, *, aws: Mapping[str, str], oidc: Mapping[str, str]) -> None:
    """Write the overlay into the site's folder. `secrets` is the folder of `clusterra-admin secrets init`.

    `aws` and `oidc` are the variables for the services that use these; those of files are set by the overlay.
    """
    shutil.rmtree(site.folder, ignore_errors=True)
    site.folder.mkdir(parents=True)
    component = site.folder / "plain-secrets"
    # The component expects the Secrets beside it, and they must not be in the repository.
    shutil.copytree(MANIFESTS / "components" / "plain-secrets", component, ignore=shutil.ignore_patterns("secrets"))
    shutil.copytree(secrets, component / "secrets")
    (site.folder / "kustomization.yaml").write_text(json.dumps(_overlay(site, aws, oidc), indent=2))


def site_objects(
    site: CentralSite, *, jwt_keys: Mapping[str, Path], client_secret: Path | None
) -> list[dict[str, Any]]:
    """The objects beside the overlay: Secrets that the installation brings itself, and the volume of NATS."""
    data = site.folder / "nats"
    data.mkdir()
    os.chown(data, UID, UID)
    objects = [
        host_volume(NAMESPACE, "data-nats-0", data, "ReadWriteOnce"),
        secret(NAMESPACE, "proxy-jwt-keys", jwt_keys),
    ]
    if client_secret is not None:
        objects.append(secret(NAMESPACE, "gateway-oidc", {_CLIENT_SECRET: client_secret}))
    return objects


def _overlay(site: CentralSite, aws: Mapping[str, str], oidc: Mapping[str, str]) -> dict[str, Any]:
    settings: dict[str, Mapping[str, str]] = dict.fromkeys(_SHARED, aws)
    settings["gateway"] = {**aws, **oidc, "CLUSTERRA_OIDC_CLIENT_SECRET_FILE": f"{OIDC}/{_CLIENT_SECRET}"}
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(MANIFESTS / "overlays" / "dev", site.folder.resolve())],
        "components": ["plain-secrets"],
        "configMapGenerator": [
            {
                "name": name,
                "namespace": NAMESPACE,
                "behavior": "merge",
                "literals": [f"{variable}={value}" for variable, value in variables.items()],
            }
            for name, variables in settings.items()
        ],
        "images": [
            {"name": f"clusterra-{name}", "newTag": site.tag}
            for name in ("gateway", "proxy", "scaler", "events", "admin")
        ],
        "patches": [_address("gateway", site.gateway), _address("nats", site.nats)],
    }


def _address(service: str, address: str) -> dict[str, Any]:
    patch = [{"op": "add", "path": "/spec/clusterIP", "value": address}]
    return {"target": {"kind": "Service", "name": service}, "patch": json.dumps(patch)}
