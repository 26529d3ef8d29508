"""Specifications of tenants, their people and clusters, as provision files and requests of operators state them."""

from typing import Annotated, Self

from clusterra_contracts.identity import Id, SlurmUser
from clusterra_contracts.registry import AccessKeys, AssumedRole, ScalingPolicy, StorageBinding, Umask, Visibility
from clusterra_contracts.shapes import Catalogue
from clusterra_runtime.nats.binding import check_slurmrestd_url, check_storage
from clusterra_runtime.secrets.reference import CheckedReference, StoredReference
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    model_validator,
)

from clusterra_gateway.accounts.records import ALLOCATED
from clusterra_gateway.directory.maps.sources import IdentitySource
from clusterra_gateway.http.requests.parameters import NotBoolean
from clusterra_gateway.tenants.shares import cluster_caps


def _lower(given: object) -> object:
    return given.lower() if isinstance(given, str) else given


def _distinct(given: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(given))


DomainName = Annotated[
    str, BeforeValidator(_lower), StringConstraints(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)*$", max_length=253)
]
Email = Annotated[str, BeforeValidator(_lower), StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$", max_length=320)]

IssuerUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s#?]+$", max_length=255)]

TenantName = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Domains = Annotated[tuple[DomainName, ...], AfterValidator(_distinct), Field(max_length=50)]
Issuers = Annotated[tuple[IssuerUrl, ...], Field(max_length=8)]
UsdPerHour = Annotated[float, Field(ge=0.0001, le=1_000_000), NotBoolean]


def _known_storage_fields(given: object) -> object:
    """Refuses an unknown field: a misspelt `endpoint` would silently mean AWS."""
    if isinstance(given, dict):
        credentials = given.get("credentials")
        fields = AccessKeys.model_fields | AssumedRole.model_fields
        unknown = [*(given.keys() - StorageBinding.model_fields)]
        unknown += [*(credentials.keys() - fields)] if isinstance(credentials, dict) else []
        if unknown:
            raise ValueError(f"unknown fields: {', '.join(sorted(map(str, unknown)))}")
    return given


CheckedStorage = Annotated[StorageBinding, AfterValidator(check_storage), BeforeValidator(_known_storage_fields)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)


class BindingFields(_Strict):
    """The fields of a cluster's binding."""

    name: str
    slurmrestd_url: Annotated[str, AfterValidator(check_slurmrestd_url)]
    jwt_key: StoredReference
    operator: SlurmUser
    partition: str = "main"
    shared_path: str = "/mnt/efs"
    policy: ScalingPolicy = ScalingPolicy()
    visibility: Visibility = "own"
    """Whose jobs, with their events, logs and runs, a member sees: their own, or those of the whole tenant."""
    storage: CheckedStorage | None = None
    """The bucket with the files of the cluster's people. The gateway reads its credentials."""
    containers: bool = False
    """Whether its workers have a container runtime for jobs with `--container`."""
    umask: Umask = "0077"
    """The umask of jobs that say none: the permissions that their files do not get. By default these are closed to all
    other people."""
    accounting_enforced: bool = False
    """Whether its Slurm enforces the limits of associations. Then Clusterra sets their GrpSubmitJobs to 0 where a quota
    is used up, and back."""
    catalogue: Catalogue | None = None
    """None for the catalogue of CLUSTERRA_CATALOGUE_FILE."""
    identity_source: Id | None = None
    """The source of its users' names, uids and groups; None: the tenant's; `allocated`: Clusterra allocates uids."""
    attached: bool = False
    """Whether others submit jobs here, too. Needs an identity source: the cluster's uids are not Clusterra's."""
    slurm_key: StoredReference | None = None
    """Where the gateway can read the Slurm key that it hands to the agent."""


class ClusterFields(BindingFields):
    """A cluster: its id, and the fields of its binding."""

    id: Id


class ClusterSpecification(ClusterFields):
    """A cluster of a provision file, and its agent's keys."""

    agent_key: CheckedReference | None = None
    """The agent key for HTTP, read when the file is applied. Without one, no agent can use HTTP."""

    @model_validator(mode="after")
    def _agent_for_slurm_key(self) -> Self:
        if self.slurm_key is not None and self.agent_key is None:
            raise ValueError("slurm_key needs an agent_key: only an agent with a key gets it")
        return self


class TenantSpecification(_Strict):
    """A tenant: the e-mail addresses of its people, and its clusters."""

    id: Id
    name: TenantName
    domains: Domains = ()
    issuers: Issuers = ()
    """The OpenID Connect issuers that may assert addresses in the domains, written as in their discovery documents.
    Empty: the gateway's own issuer (CLUSTERRA_OIDC_ISSUER)."""
    owners: tuple[Email, ...] = ()
    """Those who may delete clusters, let a directory provision people, and make others owners. Without one, an operator
    invites the first owner over HTTP."""
    admins: tuple[Email, ...] = ()
    members: tuple[Email, ...] = ()
    """Addresses outside the domains, and those of former admins."""
    identity_sources: Annotated[dict[Id, IdentitySource], Field(max_length=8)] = Field(default_factory=dict)
    """By name, where the users of clusters come from whose uids Clusterra does not allocate."""
    identity_source: Id | None = None
    """The source of all clusters that name none; None: Clusterra allocates uids."""
    clusters: tuple[ClusterSpecification, ...] = ()
    usd_per_hour: UsdPerHour | None = None
    """The cap on all these clusters' workers together. None: only the clusters' own caps apply."""

    @model_validator(mode="after")
    def _sources_exist(self) -> Self:
        if ALLOCATED in self.identity_sources:
            raise ValueError(f"no identity source can be called {ALLOCATED}")
        named = {cluster.identity_source for cluster in self.clusters} | {self.identity_source}
        if unknown := named - {None, ALLOCATED, *self.identity_sources}:
            raise ValueError(f"the tenant has no identity source {', '.join(sorted(map(str, unknown)))}")
        return self

    @model_validator(mode="after")
    def _cap_suffices(self) -> Self:
        self.caps()
        return self

    def own_caps(self) -> dict[str, float | None]:
        """The cap of each cluster that is its own."""
        return {cluster.id: cluster.policy.usd_per_hour for cluster in self.clusters}

    def caps(self) -> dict[str, float | None]:
        """The cap of each cluster's workers in USD per hour. Raises ValueError where the tenant's does not suffice."""
        given = self.own_caps()
        return given if self.usd_per_hour is None else {**cluster_caps(self.usd_per_hour, given)}


class ProvisionFile(_Strict):
    """The provision file."""

    tenants: Annotated[tuple[TenantSpecification, ...], Field(min_length=1)]
