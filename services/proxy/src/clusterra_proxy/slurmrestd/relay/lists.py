"""The lists of slurmrestd that are passed on: how their records are told apart, and who may see which."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, ClassVar, override

from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.slurm_nodes import DRAIN_REASON_PREFIX
from pydantic import Field, model_validator

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.reading.fields import Number
from clusterra_proxy.slurmrestd.reading.json_content import content_of
from clusterra_proxy.slurmrestd.reading.record_stream import RecordStream
from clusterra_proxy.slurmrestd.relay.blocks import Block, Packer, Placed

_CHUNK_BYTES = 1024 * 1024
_ANSWER = ("errors", "warnings", "meta")


class PackedList(Answer):
    """A list whose records are packed into blocks. `content` is the rest of the answer."""

    RECORDS: ClassVar = "blocks"
    RECORD: ClassVar = Block
    THREAD: ClassVar = True
    LISTED: ClassVar[str]
    """The name of the list in slurmrestd's answer."""

    blocks: tuple[Block, ...] = ()
    content: dict[str, Any] = Field(default_factory=dict)
    omitted: int = 0
    """The number of records that cannot be passed on: they have no identity, or are too large."""
    last_update: Number = None

    @classmethod
    @abstractmethod
    def place(cls, record: Mapping[str, Any]) -> Iterator[Placed]:
        """Give a record with its place, once for each group that sees it in its own way."""

    @classmethod
    @abstractmethod
    def shows(cls, viewer: Viewer, group: int) -> bool:
        """Whether the viewer sees the records of a group."""

    @classmethod
    def transcribe(cls, source: BinaryIO, target: BinaryIO) -> None:
        """Write a line for each block of the body, and last the answer without them. Raises ValueError."""
        stream, packer, omitted = RecordStream(cls.LISTED), Packer(), 0
        while chunk := source.read(_CHUNK_BYTES):
            omitted += cls._add(packer, stream.feed(chunk))
        last, rest = stream.finish()
        omitted += cls._add(packer, last)
        answer = cls.model_validate(content_of(rest))
        for block in (*packer.blocks(), *answer.blocks):
            target.write(block.model_dump_json(exclude_defaults=True).encode() + b"\n")
        answer = answer.model_copy(update={"omitted": answer.omitted + omitted + packer.omitted})
        target.write(answer.model_dump_json(exclude={"blocks"}, exclude_defaults=True).encode())

    @classmethod
    def _add(cls, packer: Packer, records: Iterable[Any]) -> int:
        omitted = 0
        for record in records:
            try:
                packer.add(cls.place(record))
            except (KeyError, TypeError, ValueError):
                omitted += 1
        return omitted

    @model_validator(mode="before")
    @classmethod
    def _pack(cls, values: Any) -> Any:
        if not isinstance(values, dict) or "content" in values:
            return values
        records = values.get(cls.LISTED) or ()
        packer = Packer()
        omitted = cls._add(packer, records)
        return {name: values[name] for name in (*_ANSWER, "last_update") if name in values} | {
            "content": {name: value for name, value in values.items() if name != cls.LISTED},
            "blocks": tuple(packer.blocks()),
            "omitted": omitted + packer.omitted,
        }


class PackedJobs(PackedList):
    """Answer to `GET jobs/`: grouped by the uid of the owner, in the order of job ids."""

    LISTED: ClassVar = "jobs"
    KIND: ClassVar = "job"

    @classmethod
    @override
    def place(cls, record: Mapping[str, Any]) -> Iterator[Placed]:
        yield int(record["user_id"]), f"{int(record['job_id']):010}", dict(record)

    @classmethod
    @override
    def shows(cls, viewer: Viewer, group: int) -> bool:
        return viewer.sees(group)


WITHOUT_JOBS, WHOLE = 0, 1
"""The groups of a list of nodes, each with all nodes: without the jobs of others, and for those who see everybody's."""


class PackedNodes(PackedList):
    """Answer to `GET nodes/`, in the order of names: once as everybody may see it, and once whole."""

    LISTED: ClassVar = "nodes"
    KIND: ClassVar = "node"

    @classmethod
    @override
    def place(cls, record: Mapping[str, Any]) -> Iterator[Placed]:
        name = str(record["name"])
        yield WITHOUT_JOBS, name, without_jobs_of_others(record)
        yield WHOLE, name, dict(record)

    @classmethod
    @override
    def shows(cls, viewer: Viewer, group: int) -> bool:
        return group == (WHOLE if viewer.only_uid is None else WITHOUT_JOBS)


class PackedHistory(PackedList):
    """Answer to `GET slurmdb jobs/` for one viewer, in the order of job ids and times."""

    LISTED: ClassVar = "jobs"
    KIND: ClassVar = "job"

    @classmethod
    @override
    def place(cls, record: Mapping[str, Any]) -> Iterator[Placed]:
        times = record["time"]
        key = f"{int(record['job_id']):010}.{int(times['submission']):012}.{int(times['start']):012}"
        yield 0, key, dict(record)

    @classmethod
    @override
    def shows(cls, viewer: Viewer, group: int) -> bool:
        return True


def without_jobs_of_others(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node without what tells of other people's jobs: who has it, for whom it drains, and their classes."""
    shown = dict(node) | {name: "" for name in ("extra", "owner", "comment", "reason_set_by_user") if name in node}
    if str(node.get("reason", "")).startswith(DRAIN_REASON_PREFIX):
        shown["reason"] = DRAIN_REASON_PREFIX
    return shown
