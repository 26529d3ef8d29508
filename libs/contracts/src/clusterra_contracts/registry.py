"""A cluster's binding: what the other services must know about it. The gateway writes it, the others watch it."""

from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator, Field, StringConstraints

from clusterra_contracts.identity import Id, Moment, ShapeName, SlurmUser, Wire
from clusterra_contracts.shapes import Catalogue

SecretReference = Annotated[str, StringConstraints(pattern=r"^(file|kubernetes|aws-secretsmanager):.+$")]
"""The location of a secret; never the secret itself."""


class ScalingPolicy(Wire):
    """How the scaler decides for a cluster. Durations are in seconds."""

    name: Literal["packing", "family"] = "packing"
    idle_seconds: Annotated[float, Field(ge=0)] = 150.0
    """The longest keep-alive time of an idle worker (the customer's value `scaleInCooldownSeconds`)."""
    max_workers: Annotated[int, Field(ge=0)] = 100
    boot_timeout_seconds: Annotated[float, Field(gt=0)] = 480.0
    """A worker that has not registered after this time no longer counts as supply and is removed. Shapes with a longer
    provisioning latency get more time."""
    ghost_seconds: Annotated[float, Field(gt=0)] = 300.0
    """The record of a Slurm node is deleted when its worker has been missing for this long."""
    mode: Literal["act", "shadow"] = "act"
    """`shadow` decides, explains and logs, but changes nothing."""
    usd_per_hour: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The cap on the cost of all workers together; None: no limit."""
    most: dict[ShapeName, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """The maximum number of workers, for shapes with a limit of their own."""
    warm: dict[ShapeName, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """The warm pool: workers of a shape that are kept even while no job needs them."""
    gather_seconds: Annotated[float, Field(ge=0)] = 0.0
    """How long a job that needs a new worker may wait, so that workers are bought for several jobs together. Applies to
    `packing` only."""
    moves_per_minute: Annotated[int, Field(ge=1)] = 60
    """The drain budget: the maximum number of idle workers whose drain begins within a minute."""
    wait_usd_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 4.0
    """The price of an hour that a job waits for the boot of a new worker. A worker with free capacity rejects a job
    only where a new worker saves more than that. Applies to `packing` only."""
    max_usd_per_hour_without_confirmation: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """A job whose expected cost per hour is above this is only submitted when its submit confirms the cost; None: no
    job needs that. The scaler does not read it."""


Visibility = Literal["own", "tenant"]

Umask = Annotated[str, StringConstraints(pattern=r"^0?[0-7]{3}$")]
"""The permissions that new files do not get, as an octal number such as `0077`."""


class AccessKeys(Wire):
    """Credentials for a bucket: a pair of keys, by references that the gateway reads."""

    kind: Literal["keys"] = "keys"
    access_key_id: SecretReference
    secret_access_key: SecretReference


class AssumedRole(Wire):
    """Credentials for a bucket: a role of AWS that the gateway assumes with its own identity."""

    kind: Literal["role"] = "role"
    role_arn: str
    external_id: str | None = None
    """What the role's trust policy asks for, so that nobody else can have the gateway assume it."""


class StorageBinding(Wire):
    """The bucket with the files of a cluster's people: any S3, or a server that speaks its protocol."""

    bucket: str
    region: str
    endpoint: str | None = None
    """The server's URL as the gateway reaches it; None for AWS."""
    public_endpoint: str | None = None
    """The server's URL in presigned URLs, where clients reach it by another name; None: as the gateway does."""
    addressing: Literal["auto", "path", "virtual"] = "auto"
    """Whether the bucket stands in the path or in the host name; `auto`: in the host name on AWS, else in the path."""
    credentials: Annotated[AccessKeys | AssumedRole, Discriminator("kind")]


class ClusterBinding(Wire):
    """Everything about a cluster that is not secret: addresses, references, shapes, prices and policy."""

    schema_name: ClassVar[str] = "registry.cluster.v9"

    name: str
    state: Literal["active", "paused"] = "active"
    deleting: bool = False
    """Whether the cluster is being deleted: its workers go as soon as they run nothing, and no job is accepted. It is
    paused, too, for releases that do not know this field."""
    slurmrestd_url: str
    bound_at: Moment | None = None
    """Since when it is bound to this address. Of two tenants' clusters with one Slurm, the first one keeps it. None: it
    was bound by a release that does not note the time."""
    jwt_key: SecretReference
    operator: SlurmUser
    """The proxy's own service user. Draining and deleting nodes requires slurmdbd's AdminLevel Administrator."""
    partition: str = "main"
    shared_path: str = "/mnt/efs"
    """The path of the shared folder inside jobs."""
    catalogue: Catalogue
    policy: ScalingPolicy = ScalingPolicy()
    visibility: Visibility = "own"
    """Whose jobs, with their events, logs and runs, a member sees: their own, or those of the whole tenant."""
    storage: StorageBinding | None = None
    """The bucket with its people's files; None: they have none."""
    identity_source: Id | None = None
    """The tenant's source of its users' names, uids and groups; None: Clusterra allocates uids."""
    attached: bool = False
    """Whether others submit jobs here, too. A job with a uid that no person has here is a stranger's: only admins see
    it, whatever the visibility."""
    containers: bool = False
    """Whether its workers have a container runtime for jobs with `--container`."""
    umask: Umask = "0077"
    """The umask of jobs that say none. By default their files are closed to all other people."""
    accounting_enforced: bool = False
    """Whether Slurm enforces the limits of associations (AccountingStorageEnforce=limits), and Clusterra may set their
    GrpSubmitJobs to 0 where a quota is used up."""
    version: Annotated[int, Field(ge=1)] = 1

    @property
    def keeps_associations(self) -> bool:
        """Whether Clusterra gives members their associations in slurmdbd.

        An attached cluster is others' to keep. Where associations are enforced, they say who may submit, and so are the
        site's.
        """
        return not self.attached and not self.accounting_enforced

    @property
    def lifecycle(self) -> Literal["active", "paused", "deleting"]:
        """The cluster's state as people see it."""
        return "deleting" if self.deleting else self.state
