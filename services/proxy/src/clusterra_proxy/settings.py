"""The proxy's settings, read from the environment."""

from typing import Annotated

from clusterra_runtime.outbound import AllowedNetworks
from clusterra_runtime.secrets.reference import SECRET_FOLDERS, SecretFolders
from clusterra_runtime.settings import ServiceSettings
from pydantic import Field

from clusterra_proxy.admission.keeper import MAX_PLACEHOLDERS


class Settings(ServiceSettings):
    """Settings of the proxy. The registry says which clusters it serves and how to reach them."""

    poll_seconds: Annotated[float, Field(gt=0, le=10)] = 0.5
    """Shortest interval between two polls of a cluster. A job submitted with plain sbatch is observed within this time.
    A replica that watches more than 125 clusters polls each of them more seldom: every 4 s with 1,000."""
    snapshot_seconds: Annotated[float, Field(gt=0, le=60)] = 5.0
    """How often an unchanged queue is published while no job is pending and no node drains."""
    snapshot_margin_seconds: Annotated[float, Field(gt=0, le=300)] = 10.0
    """How much later than usual a queue snapshot may come. After that the scaler changes nothing until one comes."""
    placeholders: Annotated[int, Field(ge=1)] = MAX_PLACEHOLDERS
    """Maximum number of placeholder node records, which make Slurm admit jobs for workers that do not exist yet.
    Slurm's MaxNodeCount must allow them in addition to the workers."""
    outbound_allowed: AllowedNetworks = ()
    """The link-local networks and addresses of metadata services that may be called, such as `["169.254.20.0/24"]`. All
    others are refused as the address of a slurmrestd."""
    mail_from: str = ""
    """The same value as that of the events service. Empty: no mails are sent, and whoever asks for one is warned."""
    secret_folders: SecretFolders = SECRET_FOLDERS
    """The folders below which secrets of `file:` references are read. A link out of them is not followed."""
    cost_note_seconds: Annotated[float, Field(ge=0, le=3600)] = 20.0
    """How often the cost of running jobs is written into Slurm's `AdminComment`; 0: never."""
