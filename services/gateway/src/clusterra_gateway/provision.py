"""`python -m clusterra_gateway.provision apply FILE` writes the tenants, people and clusters of a file to the record.

Applying a file again changes nothing. What the file does not name stays as it is, with one exception: a cluster that
the file names without an agent key loses its key. `... agent-key` generates a key.
"""

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated, Self

import typer
import yaml
from clusterra_contracts.agent_http import is_key, new_key
from clusterra_contracts.events import AdminFact
from clusterra_contracts.identity import ClusterRef, Id, SlurmUser
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime import catalogue
from clusterra_runtime.catalogue import CatalogueInvalid
from clusterra_runtime.nats import bus
from clusterra_runtime.secrets.reader import Secrets
from clusterra_runtime.secrets.reference import CheckedReference, SecretUnavailable
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import StoreError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from clusterra_gateway.accounts.admin_events import cluster_event
from clusterra_gateway.accounts.budget import cluster_caps
from clusterra_gateway.accounts.directory import Directory
from clusterra_gateway.accounts.keyspace import ACCOUNTS, domain_key, invitation_key, tenant_key, user_name_key
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.accounts.records import OPERATOR, Domain, Invitation, Tenant, UserNameReservation
from clusterra_gateway.agents.keys import AgentKeyOwner, put_agent_key
from clusterra_gateway.bus.connection import connected, followed_registry
from clusterra_gateway.http.errors import Conflict, InvalidRequest, RequestError
from clusterra_gateway.identity.credentials import secret_hash
from clusterra_gateway.identity.enrolment import FIRST_UID
from clusterra_gateway.settings import RecordSettings

ACTOR = "provision"


def _lower(given: object) -> object:
    return given.lower() if isinstance(given, str) else given


DomainName = Annotated[
    str, BeforeValidator(_lower), StringConstraints(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)*$", max_length=253)
]
Email = Annotated[str, BeforeValidator(_lower), StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$", max_length=320)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GivenCluster(_Strict):
    """A cluster: its id, the fields of its binding, and its agent's keys."""

    id: Id
    name: str
    slurmrestd_url: str
    jwt_key: CheckedReference
    operator: SlurmUser
    partition: str = "main"
    shared_path: str = "/mnt/efs"
    policy: ScalingPolicy = ScalingPolicy()
    catalogue: Catalogue | None = None
    """None for the catalogue of CLUSTERRA_CATALOGUE_FILE."""
    agent_key: CheckedReference | None = None
    """The agent key for HTTP, read when the file is applied. Without one, no agent can use HTTP."""
    slurm_key: CheckedReference | None = None
    """Where the gateway can read the Slurm key that it hands to the agent."""

    @model_validator(mode="after")
    def _agent_for_slurm_key(self) -> Self:
        if self.slurm_key is not None and self.agent_key is None:
            raise ValueError("slurm_key needs an agent_key: only an agent with a key gets it")
        return self


class GivenTenant(_Strict):
    """A tenant: the e-mail addresses of its people, and its clusters."""

    id: Id
    name: str
    domains: tuple[DomainName, ...] = ()
    admins: tuple[Email, ...] = ()
    members: tuple[Email, ...] = ()
    """Addresses outside the domains, and those of former admins."""
    clusters: tuple[GivenCluster, ...] = ()
    usd_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The budget of all these clusters' workers together. None: only the clusters' own caps apply."""

    @model_validator(mode="after")
    def _budget_suffices(self) -> Self:
        self.caps()
        return self

    def caps(self) -> dict[str, float | None]:
        """The cap of each cluster's workers in USD per hour. Raises ValueError where the budget does not suffice."""
        given = {cluster.id: cluster.policy.usd_per_hour for cluster in self.clusters}
        return given if self.usd_per_hour is None else {**cluster_caps(self.usd_per_hour, given)}


class Given(_Strict):
    """The provision file."""

    tenants: Annotated[tuple[GivenTenant, ...], Field(min_length=1)]


def read(file: Path) -> Given:
    """Reads a file in YAML or JSON. Raises InvalidRequest, which names the mistake."""
    try:
        return Given.model_validate(yaml.safe_load(file.read_text()))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InvalidRequest(f"{file}: {error}") from error


class Provisioning:
    """Writes what the record lacks of a file. `changes` describes each change in words."""

    def __init__(self, directory: Directory, default_catalogue: Catalogue | None) -> None:
        self._directory = directory
        self._default_catalogue = default_catalogue
        self.changes: list[str] = []

    async def apply(self, given: Given) -> None:
        """Writes what differs. Raises Conflict for what belongs to another tenant, InvalidRequest, StoreError."""
        for tenant in given.tenants:
            if await self._directory.replace(tenant_key(tenant.id), Tenant(name=tenant.name)):
                self.changes.append(f"tenant {tenant.id}")
            for domain in tenant.domains:
                await self._assign(f"domain {domain}", domain_key(domain), Domain(tenant=tenant.id))
            for email in {*tenant.admins, *tenant.members}:
                invitation = Invitation(tenant=tenant.id, admin=email in tenant.admins)
                await self._assign(f"invitation of {email}", invitation_key(email), invitation)
            caps = tenant.caps()
            for cluster in tenant.clusters:
                policy = cluster.policy.model_copy(update={"usd_per_hour": caps[cluster.id]})
                await self._put_cluster(tenant.id, cluster.model_copy(update={"policy": policy}))

    async def _assign(self, what: str, key: Key, record: Domain | Invitation) -> None:
        item = await self._directory.store.get(ACCOUNTS, key)
        if item is not None and (owner := str(item.attributes["tenant"])) != record.tenant:
            raise Conflict(f"{what} belongs to tenant {owner}", hint="remove it from that tenant first")
        if await self._directory.replace(key, record):
            self.changes.append(f"{what}: tenant {record.tenant}")

    async def _put_cluster(self, tenant: str, given: GivenCluster) -> None:
        shapes = given.catalogue or self._default_catalogue
        if shapes is None:
            raise InvalidRequest(
                f"cluster {given.id} has no catalogue of shapes",
                hint="set CLUSTERRA_CATALOGUE_FILE, or add a `catalogue` to the cluster",
            )
        await self._reserve_operator(tenant, given.operator)
        binding = ClusterBinding(**{**dict(given), "catalogue": shapes})
        ref = ClusterRef(tenant=tenant, cluster=given.id)
        registered = AdminFact(kind="cluster.registered", actor=ACTOR, subject=given.id)
        version = await self._directory.put_cluster(ref, binding, [cluster_event(ref, registered, version="1")])
        if version is not None:
            self.changes.append(f"cluster {tenant}/{given.id}: version {version}")
        await self._put_agent_key(ref, given)

    async def _put_agent_key(self, ref: ClusterRef, given: GivenCluster) -> None:
        key_hash = None
        if given.agent_key is not None:
            try:
                async with Secrets() as secrets:
                    key = (await secrets.read(given.agent_key)).decode(errors="replace")
            except SecretUnavailable as error:
                raise InvalidRequest(f"the agent key of {ref}: {error}") from error
            if not is_key(key):
                raise InvalidRequest(
                    f"{given.agent_key} does not hold an agent key",
                    hint="generate one with `python -m clusterra_gateway.provision agent-key`",
                )
            key_hash = secret_hash(key)
        record = AgentKeyOwner(tenant=ref.tenant, cluster=ref.cluster, slurm_key=given.slurm_key)
        if done := await put_agent_key(self._directory, record, key_hash):
            self.changes.append(f"agent key of {ref}: {done}")

    async def _reserve_operator(self, tenant: str, operator: SlurmUser) -> None:
        """Reserves the operator's name: a person with this name in their token would have its rights in Slurm."""
        if operator.uid >= FIRST_UID:
            raise InvalidRequest(
                f"the operator {operator.name} has uid {operator.uid}",
                hint=f"choose a lower one: uids from {FIRST_UID} on are for people",
            )
        reservation = UserNameReservation(uid=operator.uid, owner=OPERATOR)
        if await self._directory.add(user_name_key(tenant, operator.name), reservation):
            self.changes.append(f"user name {operator.name} of tenant {tenant}: reserved for the operator")
            return
        item = await self._directory.store.get(ACCOUNTS, user_name_key(tenant, operator.name))
        if item is None or UserNameReservation.of(item) != reservation:
            raise Conflict(
                f"the user name {operator.name} of tenant {tenant} is taken",
                hint="choose another name for the operator: a name keeps its owner and uid for good",
            )


async def provision(file: Path, settings: RecordSettings) -> list[str]:
    """Applies a file and projects the clusters. Returns the changes in words."""
    given = read(file)
    shapes = None if settings.catalogue_file is None else catalogue.load(settings.catalogue_file)
    async with (
        DynamoDBStore(table_prefix=settings.table_prefix) as store,
        connected(settings, ACTOR) as client,
        followed_registry(client) as registry,
        Outbox(store, partial(bus.store, client)) as outbox,
    ):
        await store.create_tables(ACCOUNTS)
        directory = Directory(store, outbox)
        provisioning = Provisioning(directory, shapes)
        await provisioning.apply(given)
        projected = await Projection(directory, client, registry).project()
    return [*provisioning.changes, *(f"cluster {ref}: projected" for ref in projected)]


command = typer.Typer(add_completion=False, no_args_is_help=True)


@command.callback()
def _commands() -> None:
    """Manage the tenants, people and clusters of the gateway."""


@command.command()
def agent_key() -> None:
    """Generate an agent key and print it. Put it into the agent's key file and keep it secret."""
    typer.echo(new_key())


@command.command()
def apply(file: Annotated[Path, typer.Argument(help="A YAML or JSON file with a list `tenants`.")]) -> None:
    """Write the tenants, people and clusters of FILE; print what changed."""
    try:
        changes = asyncio.run(provision(file, RecordSettings()))
    except (RequestError, CatalogueInvalid, StoreError, bus.BusUnavailable) as error:
        hint = getattr(error, "hint", "")
        typer.echo(f"{error}{f' ({hint})' if hint else ''}", err=True)
        raise typer.Exit(1) from None
    for change in changes or ["nothing to change"]:
        typer.echo(change)


if __name__ == "__main__":
    command()
