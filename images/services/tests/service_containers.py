"""How the tests run each service's container: as Kubernetes does, on servers that are containers too."""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
SERVICES = ("gateway", "proxy", "scaler", "edge-agent", "events")
IMAGES = (*SERVICES, "admin")
VERSION = "test"
"""The tag of the images that the tests build."""

CONFINED = ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--tmpfs=/tmp:mode=1777")
"""Options of every container of a service: what the manifests demand too."""

_OIDC = {"CLUSTERRA_OIDC_ISSUER": "https://issuer.invalid", "CLUSTERRA_OIDC_CLIENT_ID": "test"}
_EDGE = {
    "CLUSTERRA_TENANT": "acme",
    "CLUSTERRA_CLUSTER": "main",
    "CLUSTERRA_SHARED_DIR": "/tmp",
    "CLUSTERRA_STATE_DIR": "/var/lib/clusterra",
    "CLUSTERRA_SLURMD_CONF_SERVER": "slurmctld:6817",
    "CLUSTERRA_SLURMD_SPOOL": "/var/lib/clusterra/{worker}",
}


def image(target: str) -> str:
    """The name of an image that the tests built."""
    return f"clusterra-{target}:{VERSION}"


def locked() -> dict[str, str]:
    """Package -> its version in the lock."""
    pins = re.findall(r"^([a-z0-9._-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    return dict(pins)


@dataclass(frozen=True)
class Surroundings:
    """Servers in containers of one network, and the key that the gateway needs."""

    network: str
    session_key: Path

    def options(self, target: str) -> tuple[str, ...]:
        """Options of `docker run` for a container of `target`."""
        environment = {
            "CLUSTERRA_NATS_URL": "nats://nats:4222",
            "AWS_ENDPOINT_URL": "http://dynamodb:8000",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        more: tuple[str, ...] = ()
        match target:
            case "gateway":
                environment |= _OIDC | {"CLUSTERRA_SESSION_KEY_FILE": "/etc/clusterra/session-key"}
                more = (f"--volume={self.session_key}:/etc/clusterra/session-key:ro",)
            case "edge-agent":
                environment |= _EDGE
                more = ("--tmpfs=/var/lib/clusterra:uid=65532,gid=65532",)
        variables = tuple(f"--env={name}={value}" for name, value in environment.items())
        return (f"--network={self.network}", *CONFINED, *variables, *more)
