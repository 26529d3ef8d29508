"""`slurm.<tenant>.<cluster>.script`: the batch script that a job was submitted with, as slurmdbd keeps it."""

from typing import Annotated, ClassVar

from pydantic import Base64Bytes, Field

from clusterra_contracts.identity import JobId, Wire
from clusterra_contracts.rpc.slurm import Viewer

MAX_SCRIPT_BYTES = 4 * 1024 * 1024
"""The maximum size of a script: Slurm's own default (`max_script_size`)."""
PACKED_SCRIPT_BYTES = 700 * 1024
"""The maximum size of a compressed script: in base64 it stays below NATS' payload limit of 1 MiB. What the gateway
takes, 512 KiB, stays below it however badly it can be compressed."""


class ReadScript(Wire):
    """Read the script of a job, an array or an array task."""

    schema_name: ClassVar[str] = "slurm.script.v1"

    viewer: Viewer
    job_id: JobId


class JobScript(Wire):
    """The script of a job as it was submitted. It may hold secrets: it is never logged."""

    schema_name: ClassVar[str] = "slurm.job-script.v1"

    packed: Annotated[Base64Bytes, Field(repr=False)]
    """UTF-8, compressed with zlib: at most MAX_SCRIPT_BYTES, and PACKED_SCRIPT_BYTES before base64."""
