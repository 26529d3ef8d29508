"""The provision file: tenants, their people and clusters. `clusterra-admin provision schema` prints its schema."""

from pathlib import Path
from typing import Annotated, Any, Self

import yaml
from clusterra_contracts.identity import Id, SlurmUser
from clusterra_contracts.registry import ScalingPolicy, Visibility
from clusterra_contracts.shapes import Catalogue
from clusterra_gateway.accounts.budget import cluster_caps
from clusterra_gateway.http.errors import InvalidRequest
from clusterra_runtime.nats.binding import check_slurmrestd_url
from clusterra_runtime.secrets.reference import CheckedReference, StoredReference
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from clusterra_admin.terminal import wrong_fields


def _lower(given: object) -> object:
    return given.lower() if isinstance(given, str) else given


DomainName = Annotated[
    str, BeforeValidator(_lower), StringConstraints(pattern=r"^[a-z0-9-]+(\.[a-z0-9-]+)*$", max_length=253)
]
Email = Annotated[str, BeforeValidator(_lower), StringConstraints(pattern=r"^[^@\s]+@[^@\s]+$", max_length=320)]

IssuerUrl = Annotated[str, StringConstraints(pattern=r"^https?://[^\s#?]+$", max_length=255)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, hide_input_in_errors=True)


class GivenCluster(_Strict):
    """A cluster: its id, the fields of its binding, and its agent's keys."""

    id: Id
    name: str
    slurmrestd_url: Annotated[str, AfterValidator(check_slurmrestd_url)]
    jwt_key: StoredReference
    operator: SlurmUser
    partition: str = "main"
    shared_path: str = "/mnt/efs"
    policy: ScalingPolicy = ScalingPolicy()
    visibility: Visibility = "own"
    """Whose jobs, with their events, logs and runs, a member sees: their own, or those of the whole tenant."""
    catalogue: Catalogue | None = None
    """None for the catalogue of CLUSTERRA_CATALOGUE_FILE."""
    agent_key: CheckedReference | None = None
    """The agent key for HTTP, read when the file is applied. Without one, no agent can use HTTP."""
    slurm_key: StoredReference | None = None
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
    issuers: Annotated[tuple[IssuerUrl, ...], Field(max_length=8)] = ()
    """The OpenID Connect issuers that may assert addresses in the domains, written as in their discovery documents.
    Empty: the gateway's own issuer (CLUSTERRA_OIDC_ISSUER)."""
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
        return Given.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
    except ValidationError as error:
        raise InvalidRequest(f"{file}: {wrong_fields(error)}") from error
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{file}: not text in UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise InvalidRequest(f"{file}: nested too deeply") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidRequest(f"{file}: {_yaml_mistake(error)}") from None


def _yaml_mistake(error: Exception) -> str:
    """What is wrong with the YAML, and where. Not the line itself: there may be a secret in it."""
    mark = getattr(error, "problem_mark", None)
    place = "" if mark is None else f" in line {mark.line + 1}, column {mark.column + 1}"
    return f"not valid YAML{place}"


def schema() -> dict[str, Any]:
    """The JSON Schema of the provision file."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **Given.model_json_schema(mode="validation"),
        "title": "Provision file of clusterra-admin",
    }
