"""`python -m clusterra_gateway.provision apply FILE`: tenants, people and clusters from a file into the record.

Applying a file again changes nothing. What the file does not name stays as it is, but for a cluster's agent key: a
cluster that is named without one has none any more. `... agent-key` makes one.
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
from clusterra_contracts.registry import ClusterBinding, ScalingPolicy, SecretReference
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime import catalogue
from clusterra_runtime.catalogue import CatalogueInvalid
from clusterra_runtime.nats import bus
from clusterra_runtime.secrets import SecretUnavailable, read_secret
from clusterra_runtime.store.dynamodb import DynamoDBStore
from clusterra_runtime.store.item import Key
from clusterra_runtime.store.outbox import Outbox
from clusterra_runtime.store.store import StoreError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from clusterra_gateway.accounts.admin_events import admin_event
from clusterra_gateway.accounts.budget import shared_out
from clusterra_gateway.accounts.directory import ACCOUNTS, Directory, domain_key, invitation_key, name_key, tenant_key
from clusterra_gateway.accounts.projection import Projection
from clusterra_gateway.accounts.records import OPERATOR, Domain, Invitation, NameReservation, Tenant
from clusterra_gateway.agents.keys import AgentKey, hash_of, put_agent_key
from clusterra_gateway.app import connected, followed_registry
from clusterra_gateway.http.errors import Conflict, InvalidRequest, Refused
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
    """A cluster: its id and the fields of its binding."""

    id: Id
    name: str
    slurmrestd_url: str
    jwt_key: SecretReference
    operator: SlurmUser
    partition: str = "main"
    shared_path: str = "/mnt/efs"
    policy: ScalingPolicy = ScalingPolicy()
    catalogue: Catalogue | None = None
    """None takes the one of CLUSTERRA_CATALOGUE_FILE."""
    agent_key: SecretReference | None = None
    """The key of its agent for HTTP, read when the file is applied; None lets in no agent."""
    slurm_key: SecretReference | None = None
    """The Slurm key that an agent which asks for it gets, as the gateway can read it."""

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.slurm_key is not None and self.agent_key is None:
            raise ValueError("slurm_key is for an agent: give an agent_key as well")
        return self


class GivenTenant(_Strict):
    """A tenant: whose addresses belong to it, and its clusters."""

    id: Id
    name: str
    domains: tuple[DomainName, ...] = ()
    admins: tuple[Email, ...] = ()
    members: tuple[Email, ...] = ()
    """Addresses outside of the domains, and of those who are no admins any more."""
    clusters: tuple[GivenCluster, ...] = ()
    usd_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """What the workers of these clusters may cost together; None: no bound but the clusters' own."""

    @model_validator(mode="after")
    def _affordable(self) -> Self:
        self.caps()
        return self

    def caps(self) -> dict[str, float | None]:
        """What the workers of each cluster may cost. Raises ValueError where the budget is not enough."""
        given = {cluster.id: cluster.policy.usd_per_hour for cluster in self.clusters}
        return given if self.usd_per_hour is None else {**shared_out(self.usd_per_hour, given)}


class Given(_Strict):
    """The whole file."""

    tenants: Annotated[tuple[GivenTenant, ...], Field(min_length=1)]


def read(file: Path) -> Given:
    """Read a file in YAML or JSON. Raises InvalidRequest that names what is wrong."""
    try:
        return Given.model_validate(yaml.safe_load(file.read_text()))
    except (OSError, yaml.YAMLError, ValidationError) as error:
        raise InvalidRequest(f"{file}: {error}") from error


class Provisioning:
    """Brings the record to what a file says; `changes` tells in words what was not so before."""

    def __init__(self, directory: Directory, default_catalogue: Catalogue | None) -> None:
        self._directory = directory
        self._default_catalogue = default_catalogue
        self.changes: list[str] = []

    async def apply(self, given: Given) -> None:
        """Write what differs. Raises Conflict for what belongs to another tenant, InvalidRequest, StoreError."""
        for tenant in given.tenants:
            if await self._directory.replace(tenant_key(tenant.id), Tenant(name=tenant.name)):
                self.changes.append(f"tenant {tenant.id}")
            for domain in tenant.domains:
                await self._owned(f"domain {domain}", domain_key(domain), Domain(tenant=tenant.id))
            for email in {*tenant.admins, *tenant.members}:
                invitation = Invitation(tenant=tenant.id, admin=email in tenant.admins)
                await self._owned(f"invitation of {email}", invitation_key(email), invitation)
            caps = tenant.caps()
            for cluster in tenant.clusters:
                policy = cluster.policy.model_copy(update={"usd_per_hour": caps[cluster.id]})
                await self._cluster(tenant.id, cluster.model_copy(update={"policy": policy}))

    async def _owned(self, what: str, key: Key, record: Domain | Invitation) -> None:
        item = await self._directory.store.get(ACCOUNTS, key)
        if item is not None and (owner := str(item.attributes["tenant"])) != record.tenant:
            raise Conflict(f"{what} belongs to tenant {owner}", hint="remove it there before giving it to another")
        if await self._directory.replace(key, record):
            self.changes.append(f"{what}: tenant {record.tenant}")

    async def _cluster(self, tenant: str, given: GivenCluster) -> None:
        shapes = given.catalogue or self._default_catalogue
        if shapes is None:
            raise InvalidRequest(
                f"cluster {given.id} has no catalogue of shapes", hint="set CLUSTERRA_CATALOGUE_FILE or give one"
            )
        await self._reserve_operator(tenant, given.operator)
        binding = ClusterBinding(**{**dict(given), "catalogue": shapes})
        ref = ClusterRef(tenant=tenant, cluster=given.id)
        registered = AdminFact(kind="cluster.registered", actor=ACTOR, subject=given.id)
        version = await self._directory.put_cluster(ref, binding, [admin_event(ref, registered, version="1")])
        if version is not None:
            self.changes.append(f"cluster {tenant}/{given.id}: version {version}")
        await self._agent_key(ref, given)

    async def _agent_key(self, ref: ClusterRef, given: GivenCluster) -> None:
        key_hash = None
        if given.agent_key is not None:
            try:
                key = read_secret(given.agent_key).decode(errors="replace")
            except SecretUnavailable as error:
                raise InvalidRequest(f"the agent key of {ref}: {error}") from error
            if not is_key(key):
                raise InvalidRequest(
                    f"{given.agent_key} holds no agent key",
                    hint="make one with `python -m clusterra_gateway.provision agent-key`",
                )
            key_hash = hash_of(key)
        record = AgentKey(tenant=ref.tenant, cluster=ref.cluster, slurm_key=given.slurm_key)
        if done := await put_agent_key(self._directory, record, key_hash):
            self.changes.append(f"agent key of {ref}: {done}")

    async def _reserve_operator(self, tenant: str, operator: SlurmUser) -> None:
        """Keep the operator's name from people: whoever has it in a token has its rights in Slurm."""
        if operator.uid >= FIRST_UID:
            raise InvalidRequest(
                f"the operator {operator.name} has uid {operator.uid}", hint=f"uids from {FIRST_UID} on are people's"
            )
        reservation = NameReservation(uid=operator.uid, owner=OPERATOR)
        if await self._directory.add(name_key(tenant, operator.name), reservation):
            self.changes.append(f"user name {operator.name} of tenant {tenant}: reserved for the operator")
            return
        item = await self._directory.store.get(ACCOUNTS, name_key(tenant, operator.name))
        if item is None or NameReservation.of(item) != reservation:
            raise Conflict(
                f"the user name {operator.name} of tenant {tenant} is somebody else's",
                hint="choose another name for the operator; a name has one uid, for good",
            )


async def provision(file: Path, settings: RecordSettings) -> list[str]:
    """Apply a file and project the clusters; what was changed, in words."""
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
        projected = await Projection(directory, client, registry).once()
    return [*provisioning.changes, *(f"cluster {ref}: projected" for ref in projected)]


command = typer.Typer(add_completion=False, no_args_is_help=True)


@command.callback()
def _commands() -> None:
    """Tenants, people and clusters of the gateway's record."""


@command.command()
def agent_key() -> None:
    """Make an agent's key and print it: the agent's key file is to hold it, and nobody else is to know it."""
    typer.echo(new_key())


@command.command()
def apply(file: Annotated[Path, typer.Argument(help="YAML or JSON with a list `tenants`")]) -> None:
    """Write what FILE says and the record does not say yet."""
    try:
        changes = asyncio.run(provision(file, RecordSettings()))
    except (Refused, CatalogueInvalid, StoreError, bus.BusUnavailable) as error:
        hint = getattr(error, "hint", "")
        typer.echo(f"{error}{f' ({hint})' if hint else ''}", err=True)
        raise typer.Exit(1) from None
    for change in changes or ["nothing to change"]:
        typer.echo(change)


if __name__ == "__main__":
    command()
