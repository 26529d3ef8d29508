"""The five services of the lab: their commands, environments and users, and the setup of tenants and clusters."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from clusterra_contracts.agent_http import new_key
from clusterra_contracts.identity import ClusterRef
from clusterra_contracts.registry import ScalingPolicy

from clusterra_lab.machine.secret_file import ensure_secret, write_secret
from clusterra_lab.parts.aws import Aws
from clusterra_lab.parts.bucket import storage
from clusterra_lab.parts.nats import NatsServer
from clusterra_lab.parts.oidc import Oidc, Person
from clusterra_lab.slurm.control_plane import SlurmCluster
from clusterra_lab.stack.fleet import Command

CLUSTER = ClusterRef(tenant="acme", cluster="main")
EMAIL_DOMAIN = "acme.example"
PEOPLE = (
    Person(subject="ada", email=f"ada@{EMAIL_DOMAIN}", name="Ada Lovelace"),
    Person(subject="grace", email=f"grace@{EMAIL_DOMAIN}", name="Grace Hopper"),
    Person(subject="eve", email="eve@globex.example", name="Eve of another tenant"),
)
CATALOGUE = Path(__file__).parents[4] / "catalog" / "shapes.yaml"
TEMPLATES = CATALOGUE.parent / "templates"
CONSOLE = CATALOGUE.parents[1] / "console" / "dist"
"""The console, where it was built."""
POLICY = ScalingPolicy(idle_seconds=5.0, max_workers=24)
"""A short keep-alive: workers of the lab cost nothing, but users of the lab wait for the fleet to empty.

Few workers: each is a slurmd of this machine, and an array of 2,000 tasks would start 100 of them.
"""

DECISION_LOG_BYTES = 64 * 1024 * 1024
"""So another policy can be tried on the queue of an earlier decision."""

OTHER_TENANT = {"id": "globex", "name": "Globex", "domains": ["globex.example"]}
"""A second tenant, which must not see anything of the first one."""


@dataclass(frozen=True)
class Parts:
    """The dependencies that the services are connected to."""

    directory: Path
    nats: NatsServer
    aws: Aws
    oidc: Oidc
    slurm: SlurmCluster
    edge: Mapping[str, str]
    """The edge-agent's variables for its substrate."""
    gateway_url: str
    sessions_url: str
    catalogue: Path = CATALOGUE
    """The file with the shapes."""
    accounting_enforced: bool = False
    """Whether Slurm enforces the limits of associations."""

    @property
    def agent_key_file(self) -> Path:
        """The file of the key with which the edge-agent authenticates at the gateway."""
        return self.directory / "agent-key"

    @property
    def provision_file(self) -> Path:
        """The file of which `provisioning` makes the tenants and the cluster."""
        return self.directory / "tenants.json"


def tables(parts: Parts) -> Command:
    """The command that creates the services' tables. Running it again changes nothing."""
    return _admin_command(parts, "tables", "tables", "apply")


def provisioning(parts: Parts, policy: ScalingPolicy) -> Command:
    """The command that provisions the tenants and the cluster, after `tables`. Running it again changes nothing."""
    if not parts.agent_key_file.exists():
        write_secret(parts.agent_key_file, new_key())
    parts.provision_file.write_text(
        provision_file(
            parts.slurm,
            policy,
            jwt_key=f"file:{parts.slurm.jwt_key_file}",
            agent_key=f"file:{parts.agent_key_file}",
            storage=storage(parts.aws, parts.directory),
            accounting_enforced=parts.accounting_enforced,
        )
    )
    return _admin_command(parts, "tenants and clusters", "provision", "apply", str(parts.provision_file))


def _admin_command(parts: Parts, name: str, *arguments: str) -> Command:
    environment = {
        **parts.nats.environment("setup"),
        **parts.aws.environment(),
        "CLUSTERRA_CATALOGUE_FILE": str(parts.catalogue),
    }
    return Command(name, "clusterra_admin", environment, arguments)


def services(parts: Parts, more: Mapping[str, str]) -> list[Command]:
    """The commands of the services, with `more` variables for each; `fleet` adds the port of the health routes."""
    session_key = parts.directory / "session-key"
    ensure_secret(session_key)
    # Whoever runs a lab runs its services, so its bindings may name any file.
    secrets = {"CLUSTERRA_SECRET_FOLDERS": '["/"]'}
    own = {
        "gateway": {
            **secrets,
            **parts.aws.environment(),
            **parts.oidc.environment(),
            "CLUSTERRA_HTTP_PORT": parts.gateway_url.rpartition(":")[2],
            "CLUSTERRA_PUBLIC_URL": parts.gateway_url,
            "CLUSTERRA_SESSIONS_URL": parts.sessions_url,
            "CLUSTERRA_SESSIONS_PORT": parts.sessions_url.rpartition(":")[2],
            "CLUSTERRA_SESSION_KEY_FILE": str(session_key),
            "CLUSTERRA_TEMPLATES_DIR": str(TEMPLATES),
            "CLUSTERRA_CATALOGUE_FILE": str(parts.catalogue),
            **({"CLUSTERRA_CONSOLE_DIR": str(CONSOLE)} if console_built() else {}),
        },
        "proxy": secrets,
        "scaler": {
            **parts.aws.environment(),
            "CLUSTERRA_DECISION_LOG_DIR": str(parts.directory / "decisions"),
            "CLUSTERRA_DECISION_LOG_BYTES": str(DECISION_LOG_BYTES),
        },
        "events": parts.aws.environment(),
        "edge-agent": _edge_agent(parts),
    }
    return [
        Command(name, f"clusterra_{name.replace('-', '_')}", {**parts.nats.environment(name), **environment, **more})
        for name, environment in own.items()
    ]


def console_built() -> bool:
    """Whether the gateway serves the console: only who wants it needs Node."""
    return (CONSOLE / "index.html").is_file()


def _edge_agent(parts: Parts) -> dict[str, str]:
    return {
        "CLUSTERRA_TENANT": CLUSTER.tenant,
        "CLUSTERRA_CLUSTER": CLUSTER.cluster,
        "CLUSTERRA_SHARED_DIR": str(parts.slurm.shared_dir),
        "CLUSTERRA_STATE_DIR": str(parts.directory / "edge-agent"),
        "CLUSTERRA_GATEWAY_URL": parts.gateway_url,
        "CLUSTERRA_AGENT_KEY_FILE": str(parts.agent_key_file),
        **parts.edge,
    }


def provision_file(
    slurm: SlurmCluster,
    policy: ScalingPolicy,
    *,
    jwt_key: str,
    agent_key: str,
    storage: Mapping[str, object] | None = None,
    accounting_enforced: bool = False,
) -> str:
    """The content of the lab's provision file: two tenants, the first of which has the cluster.

    `jwt_key` and `agent_key` are references to secrets: the proxy reads the first one, the command the second one.
    `storage` is the bucket with people's files.
    """
    tenant = {
        "id": CLUSTER.tenant,
        "name": "Acme",
        "domains": [EMAIL_DOMAIN],
        "admins": [PEOPLE[0].email],
        "clusters": [
            {
                "id": CLUSTER.cluster,
                "name": "Main",
                "slurmrestd_url": slurm.slurmrestd_url,
                "jwt_key": jwt_key,
                "operator": slurm.operator.model_dump(mode="json"),
                "shared_path": slurm.shared_path,
                "policy": policy.model_dump(mode="json"),
                "agent_key": agent_key,
                "storage": storage,
                "accounting_enforced": accounting_enforced,
            }
        ],
    }
    return json.dumps({"tenants": [tenant, OTHER_TENANT]}, indent=2)
