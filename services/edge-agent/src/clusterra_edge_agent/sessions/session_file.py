"""Reads session files: a job that serves a page says so in a small file in the shared folder.

The file is the ready callback. It needs no way from a worker to the central side, and no secret: the kernel vouches for
its author, because only its owner can make a file with their uid.
"""

from pathlib import Path
from typing import Annotated

from clusterra_contracts.identity import JobId
from clusterra_contracts.rpc.edge_streams import CookieName
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clusterra_edge_agent.logs import job_output
from clusterra_edge_agent.logs.job_output import ClosedOutput, NoSuchOutput

MAX_BYTES = 1024


class SessionFile(BaseModel):
    """What a session says about its server."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    port: Annotated[int, Field(ge=1024, le=65535)]
    strip_prefix: bool = False
    """Whether the server does not know the prefix of the path that browsers use."""
    token_cookie: CookieName | None = None
    """A cookie in which the server also wants its token, because it reads no `Authorization`."""


class NoSessionFile(Exception):
    """The job has no session file, or none that can be read. The text says what is wrong."""


def path(job_id: JobId) -> str:
    """The file's path, relative to the shared folder: beside the job's output."""
    return f"job_{job_id}.session"


def read(shared_dir: Path, job_id: JobId, uid: int) -> SessionFile:
    """Reads the session file of a job. One of anybody but its owner counts as none. Raises NoSessionFile, OSError."""
    try:
        location = job_output.located(shared_dir, path(job_id), uid)
        content, size = job_output.read(shared_dir, location, uid, 0, MAX_BYTES)
    except ClosedOutput:
        raise NoSessionFile(f"{path(job_id)} is closed to the edge-agent: write it with the umask 022") from None
    except NoSuchOutput:
        raise NoSessionFile(f"the job has not written {path(job_id)} yet") from None
    if not size:
        # The prolog makes an empty file, so that nobody else can take its name.
        raise NoSessionFile(f"the job has not written {path(job_id)} yet")
    if size > MAX_BYTES:
        raise NoSessionFile(f"{path(job_id)} has more than {MAX_BYTES} bytes")
    try:
        return SessionFile.model_validate_json(content)
    except ValidationError as error:
        # Not the values: a script may have written a secret.
        fields = ", ".join(sorted({str(each["loc"][0]) if each["loc"] else "body" for each in error.errors()}))
        raise NoSessionFile(f'{path(job_id)} must be JSON such as {{"port": 8888}}: wrong are {fields}') from None
