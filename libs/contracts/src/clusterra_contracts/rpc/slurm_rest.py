"""Requests of `rpc.slurm` that pass reads on to slurmrestd, in the API version that the client speaks.

A list has no bound, and a message has one. So a list is read in parts, each of which says after which record the next
one continues. Records have an order that never changes, so any replica of the proxy can answer any part, and whatever
changes between two parts: a record that exists all the time is in exactly one of them.
"""

from typing import Annotated, ClassVar

from pydantic import Base64Bytes, Field, StringConstraints

from clusterra_contracts.identity import Wire
from clusterra_contracts.rpc.slurm import Viewer

REST_PART_BYTES = 256 * 1024
"""The maximum size of the compressed records in a part: in base64 they stay below NATS' payload limit of 1 MiB."""
REST_BLOCK_BYTES = 2 * 1024 * 1024
"""The maximum size of one block of records when it is decompressed."""

RestVersion = Annotated[str, StringConstraints(pattern=r"^v0\.0\.[0-9]{2,3}$")]
"""A version of slurmrestd's API, such as `v0.0.45`."""


class RestCursor(Wire):
    """The place of a record in a list: those of one owner are together."""

    group: int
    key: Annotated[str, Field(max_length=256)]


class ReadRest(Wire):
    """Read a resource of slurmrestd as far as the viewer may see it. Of a list, one part: that after `after`."""

    schema_name: ClassVar[str] = "slurm.rest.v3"

    viewer: Viewer
    version: RestVersion
    resource: Annotated[str, StringConstraints(pattern=r"^(slurm|slurmdb)/[a-z]{1,32}$")]
    """Such as `slurm/jobs` or `slurm/job`."""
    name: Annotated[str, Field(max_length=128)] = ""
    """The id or the name of the one that is read."""
    query: Annotated[dict[str, Annotated[str, Field(max_length=1000)]], Field(max_length=40)] = Field(
        default_factory=dict
    )
    after: RestCursor | None = None


class RestPart(Wire):
    """An answer of slurmrestd, or a part of a list."""

    schema_name: ClassVar[str] = "slurm.rest-part.v1"

    answer: str
    """JSON: the answer without the records of its list."""
    listed: str = ""
    """The name of the list; empty for an answer that has all of it in `answer`."""
    blocks: tuple[Base64Bytes, ...] = ()
    """Records of the list as JSON, separated by commas; each block is compressed with zlib and of at most
    REST_BLOCK_BYTES."""
    after: RestCursor | None = None
    """Where the next part continues; None at the end."""
    not_modified: bool = False
    """Whether nothing has changed since the `update_time` of the query, and slurmrestd would say so by 304."""
