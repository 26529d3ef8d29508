"""The staging of one job, as it is stored: a state machine whose phases follow each other. Pure.

| phase | until |
|---|---|
| `submitting` | the job's id is known |
| `staging_in` | its working directory is there, with its inputs; the job is held |
| `waiting` | the job has ended |
| `staging_out` | its outputs are in the bucket |
| `done`, `failed` | |
"""

import json
import operator
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Annotated, Literal

from clusterra_contracts.identity import JobId, Moment, SlurmUser
from pydantic import Field

from clusterra_gateway.accounts.records import Record
from clusterra_gateway.submission.staged_files import (
    Input,
    JobStaging,
    Output,
    StagedFile,
    StageOutPart,
    StageOutRule,
    StagingPart,
    StagingPlan,
    StagingState,
)

Phase = Literal["submitting", "staging_in", "waiting", "staging_out", "done", "failed"]
OVER: frozenset[Phase] = frozenset({"done", "failed"})

MAX_ERRORS = 20
"""The most reasons that are kept in each direction."""
MAX_ERROR_CHARACTERS = 400
MAX_NAMED = 100
"""The most results whose names are kept."""
MAX_NAMED_BYTES = 12 * 1024
"""The most bytes of their paths as JSON, where a character may take twelve: an item of DynamoDB holds 400 KiB, of which
a submit may take 320."""
FILE_ATTEMPTS = 5
"""How many times a file with a transient problem is tried before it counts as failed."""
GIVE_UP: dict[Phase, timedelta] = {
    "submitting": timedelta(minutes=15),
    "staging_in": timedelta(hours=2),
    "staging_out": timedelta(hours=24),
}
"""How long a phase may make no progress, such as while the edge does not answer. Then the staging is given up."""
_FIRST_PAUSE_SECONDS = 2.0
_LONGEST_PAUSE_SECONDS = 300.0


class OpenUpload(Record):
    """An upload in parts that has begun."""

    id: str
    path: str
    key: str
    size: int
    modified_ns: int


class CopiedFile(Record):
    """A result, by its path in the bucket."""

    path: str
    size: int


class Copied(Record):
    """What was copied in one direction."""

    files: int = 0
    bytes: int = 0
    failed_files: int = 0
    errors: tuple[str, ...] = ()
    named: Annotated[tuple[CopiedFile, ...], Field(exclude_if=operator.not_)] = ()
    """Results that were copied, the first that have room within MAX_NAMED and MAX_NAMED_BYTES."""

    def plus(self, files: int, size: int) -> "Copied":
        """With further files."""
        return self.model_copy(update={"files": self.files + files, "bytes": self.bytes + size})

    def with_names(self, files: Sequence[CopiedFile]) -> "Copied":
        """With the names of further results, as far as they have room."""
        named = [*self.named, *files][:MAX_NAMED]
        sizes = accumulate(len(json.dumps(file.path)) for file in named)
        return self.model_copy(update={"named": tuple(named[: sum(size <= MAX_NAMED_BYTES for size in sizes)])})

    def failing(self, *reasons: str) -> "Copied":
        """With a failed file for each reason."""
        kept = (*self.errors, *(reason[:MAX_ERROR_CHARACTERS] for reason in reasons))[:MAX_ERRORS]
        return self.model_copy(update={"failed_files": self.failed_files + len(reasons), "errors": kept})


class Staging(Record):
    """The staging of one job."""

    id: Annotated[str, Field(pattern="^[0-9a-f]{32}$")]
    member: str
    """The id of the job's owner."""
    user: SlurmUser
    job_name: str
    key: str
    """The idempotency key of the submit, by which the job is found."""
    digest: str
    """The hash of the request, to tell a repeated request from another one."""
    created_at: Moment
    folder: str
    """The job's working directory, relative to the shared folder."""
    inputs: tuple[Input, ...] = ()
    outputs: tuple[Output, ...] = ()
    stays_held: bool = False
    """Whether the submit asked for a held job, so that it is not released."""

    phase: Phase = "submitting"
    job_id: JobId | None = None
    staged_in: Copied = Copied()
    staged_out: Copied = Copied()
    next_input: int = 0
    cursor: str = ""
    """The path of the last file that was staged out, in the order of the paths."""
    upload: OpenUpload | None = None
    attempts: int = 0
    """The failed attempts since the last progress. `file_attempts` counts those at which a file was the problem."""
    file_attempts: int = 0
    progressed_at: Moment
    not_before: Moment | None = None
    pause: str = ""
    """Why it does not go on at the moment."""
    claimed_by: str = ""
    claimed_until: Moment | None = None

    @property
    def plan(self) -> StagingPlan:
        """What is staged."""
        return StagingPlan(folder=self.folder, inputs=self.inputs, outputs=self.outputs)

    @property
    def over(self) -> bool:
        """Whether nothing is to be done any more."""
        return self.phase in OVER

    def may_claim(self, by: str, at: datetime) -> bool:
        """Whether a gateway may take the lease of the staging now."""
        free = self.claimed_by in ("", by) or self.claimed_until is None or self.claimed_until <= at
        return free and not self.over and (self.not_before is None or self.not_before <= at)

    def expired(self, at: datetime) -> bool:
        """Whether the staging has made no progress for too long, and is abandoned."""
        limit = GIVE_UP.get(self.phase)
        return limit is not None and at - self.progressed_at > limit

    @property
    def last_file_attempt(self) -> bool:
        """Whether a file with a transient problem is not tried again after this attempt."""
        return self.file_attempts + 1 >= FILE_ATTEMPTS

    def paused(self, reason: str, at: datetime, *, by_file: bool = False) -> "Staging":
        """The staging after a failed attempt. The pause before the next one grows exponentially, up to 5 minutes."""
        seconds = min(_FIRST_PAUSE_SECONDS * 2**self.attempts, _LONGEST_PAUSE_SECONDS)
        return self.model_copy(
            update={
                "attempts": min(self.attempts + 1, 30),
                "file_attempts": self.file_attempts + by_file,
                "not_before": at + timedelta(seconds=seconds),
                "pause": reason[:MAX_ERROR_CHARACTERS],
                "claimed_by": "",
            }
        )

    def progressed(self, at: datetime, **changes: object) -> "Staging":
        """The staging after progress: attempts are counted anew."""
        went_on = {"attempts": 0, "file_attempts": 0, "progressed_at": at, "not_before": None, "pause": ""}
        return self.model_copy(update={**went_on, **changes})


def view(staging: Staging) -> JobStaging:
    """How far it is, as the job shows it."""
    shown = staging.inputs or staging.staged_in.failed_files
    into = _part(staging, staging.staged_in, _in_state(staging)) if shown else None
    out = _out_part(staging) if staging.outputs else None
    parts = [part for part in (into, out) if part is not None]
    return JobStaging(
        state=_whole(staging, [part.state for part in parts]),
        files=sum(part.files for part in parts),
        bytes=sum(part.bytes for part in parts),
        failed_files=sum(part.failed_files for part in parts),
        errors=tuple(error for part in parts for error in part.errors)[:MAX_ERRORS],
        stage_in=into,
        stage_out=out,
    )


def _in_state(staging: Staging) -> StagingState:
    if staging.staged_in.failed_files:
        return "failed"
    if staging.phase == "submitting":
        return "pending"
    return "running" if staging.phase == "staging_in" else "done"


def _out_state(staging: Staging) -> StagingState:
    if staging.phase == "staging_out":
        return "running"
    if not staging.over:
        return "pending"
    return "failed" if staging.staged_out.failed_files or staging.staged_in.failed_files else "done"


def _whole(staging: Staging, states: list[StagingState]) -> StagingState:
    if "failed" in states and staging.over:
        return "failed"
    return next((state for state in ("running", "pending", "failed") if state in states), "done")


def _part(staging: Staging, copied: Copied, state: StagingState) -> StagingPart:
    paused = (staging.pause,) if staging.pause and state == "running" else ()
    return StagingPart(
        state=state,
        files=copied.files,
        bytes=copied.bytes,
        failed_files=copied.failed_files,
        errors=(*copied.errors, *paused)[:MAX_ERRORS],
    )


def _out_part(staging: Staging) -> StageOutPart:
    part = _part(staging, staging.staged_out, _out_state(staging))
    return StageOutPart(
        **part.model_dump(),
        rules=tuple(StageOutRule(source=each.source, destination=each.destination) for each in staging.outputs),
        copied=tuple(StagedFile(path=each.path, size=each.size) for each in staging.staged_out.named),
    )
