"""Files that are staged for a job: which ones, as a submit names them, and how far they are, as the job shows it."""

from typing import Annotated, Literal

from clusterra_contracts.rpc.edge_staging import MAX_PATTERNS, PathPattern, RelativePath
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.http.answers.responses import ResponseBody

MAX_INPUTS = 100
"""The most files that are staged in for a job."""

BucketPath = Annotated[str, StringConstraints(min_length=1, max_length=4096)]
"""A path as `POST .../storage/presigned-url` takes it, such as `data/run 1/input.csv`."""

StagingState = Literal["pending", "running", "done", "failed"]
"""`failed`: at least one file could not be copied."""


class StageIn(BaseModel):
    """A file of the bucket that is copied to the job's working directory before the job may start."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: BucketPath
    """The file in the bucket: `data/x.csv`."""
    destination: RelativePath
    """The file that it becomes, relative to the job's working directory: `x.csv`. Folders are made."""


class StageOut(BaseModel):
    """Files of the job's working directory that are copied to the bucket after the job has ended."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    source: PathPattern
    """Which files, relative to the working directory: `results/*.txt`, or `results/**` with all folders below."""
    destination: BucketPath
    """The folder in the bucket: `outputs/run1/`. What the first names of `source` fix is left out of the new paths."""


StageIns = Annotated[tuple[StageIn, ...], Field(max_length=MAX_INPUTS)]
StageOuts = Annotated[tuple[StageOut, ...], Field(max_length=MAX_PATTERNS)]


class Input(Record):
    """A file to stage in."""

    source: str
    """Its path in the bucket, and its `key`."""
    key: str
    destination: str
    size: int
    etag: str


class Output(Record):
    """Files to stage out, and the folder of the bucket that they go to."""

    source: str
    destination: str


class StagingPlan(Record):
    """What is staged for a job, looked up and checked."""

    folder: str
    """The job's working directory, relative to the shared folder."""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()


class StagingPart(ResponseBody):
    """How far the copying in one direction is."""

    state: StagingState
    files: int
    """How many files are copied, and their `bytes`."""
    bytes: int
    failed_files: int
    errors: tuple[str, ...]
    """Why files could not be copied, or why it does not go on at the moment: the first 20 reasons."""


class StageOutRule(ResponseBody):
    """Which files of the working directory are copied, as a pattern, and the folder of the bucket that they go to."""

    source: str
    destination: str


class StagedFile(ResponseBody):
    """A file in the bucket: `outputs/run1/a.txt`, and its size in bytes."""

    path: str
    size: int


class StageOutPart(StagingPart):
    """How far the copying of a job's results is, and where they are."""

    rules: tuple[StageOutRule, ...] = ()
    """Those that the job was submitted with."""
    copied: tuple[StagedFile, ...] = ()
    """The first files that were copied, at most 100. A job of an earlier release has none."""


class JobStaging(StagingPart):
    """How far the staging of a job is: all in all, and in each direction; null for a direction without files."""

    stage_in: StagingPart | None
    stage_out: StageOutPart | None

    def without_names(self) -> "JobStaging":
        """The same without the names of people's files: for others who see the job. Errors have them, too."""
        into = self.stage_in and self.stage_in.model_copy(update={"errors": ()})
        out = self.stage_out and self.stage_out.model_copy(update={"errors": (), "rules": (), "copied": ()})
        return self.model_copy(update={"errors": (), "stage_in": into, "stage_out": out})
