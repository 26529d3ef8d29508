"""Records of pods: which events of each are published, and how its end will be classified. Kept over restarts."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import structlog
from clusterra_contracts.events import MachineSize, MisclassifiedFact
from clusterra_contracts.identity import Moment, ShapeName, WorkerName, now
from prometheus_client import Counter
from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client.resources import Pod
from clusterra_edge_agent.substrate.port import WorkerEvent
from clusterra_edge_agent.substrate.records import RECORD_CONFIG, End, Records, WorkerRecord

log = structlog.get_logger(__name__)

LOST = Counter("clusterra_edge_workers_lost_total", "Workers that were deleted although they were no victims")


class MisclassificationRecord(BaseModel):
    """A worker's slurmd was not started, because its node does not have what its shape promises."""

    model_config = ConfigDict(**RECORD_CONFIG, frozen=True)

    node: str
    expected: MachineSize
    actual: MachineSize
    observed_at: Annotated[Moment, Field(alias="seen_at")]
    published: Annotated[bool, Field(alias="told")] = False


@dataclass(frozen=True, slots=True, kw_only=True, config=RECORD_CONFIG)
class PodRecord(WorkerRecord):
    """A worker that is a pod. `removing`: it is a victim, or was surplus before it started."""

    uid: str
    began: bool = False
    """Whether it has ever started. A pod that never did was no worker that could be lost."""
    end_published: Annotated[bool, Field(alias="end_told")] = False
    """Its last event is published. The record waits until the pod is removed."""
    misclassification: Annotated[MisclassificationRecord | None, Field(alias="refusal")] = None

    @property
    def key(self) -> str:
        """Its uid: a NodeSet gives the name of a pod to the next one."""
        return self.uid

    @property
    def version(self) -> str:
        """Its uid."""
        return self.uid

    def pending_events(self) -> Iterator[WorkerEvent]:
        """Yields the events that are not published yet. Its end comes last."""
        if self.misclassification is not None and not self.misclassification.published:
            misclassification = self.misclassification
            fact = MisclassifiedFact(
                node=misclassification.node,
                shape=self.shape,
                expected=misclassification.expected,
                actual=misclassification.actual,
            )
            # A node may have several events: the pod's uid tells them apart.
            yield WorkerEvent(self.name, fact, version=self.uid, time=misclassification.observed_at)
        if not self.end_published:
            yield from WorkerRecord.pending_events(self)


class PodRecords:
    """Turns the changes of pods into worker events.

    A victim that is deleted is `stopped`. So is a pod that was deleted before it started, even if its containers still
    start. A pod whose containers end has `failed`. Any other worker that is deleted is `lost`. `stopped` and `lost` are
    reported as soon as the deletion is observed. Ends that occur while another agent acts are that agent's to report.
    All methods raise OSError when the folder cannot be used.
    """

    def __init__(self, folder: Path, another_acts: Callable[[], bool] = lambda: False) -> None:
        """Raises state_files.StateUnreadable."""
        self._another_acts = another_acts
        self._files = Records(folder, PodRecord)
        self._records = {record.uid: record for record in self._files.load()}
        self._present: set[str] = set()

    def observe(self, old: Pod | None, new: Pod | None, shape: ShapeName) -> None:
        """Records that a pod was created, changed or removed."""
        if new is None:
            assert old is not None  # noqa: S101 - one of the two is given
            self._present.discard(old.metadata.uid)
            self._record_removal(self._records.get(old.metadata.uid))
            return
        uid = new.metadata.uid
        self._present.add(uid)
        record = self._records.get(uid)
        if record is None:
            record = PodRecord(name=new.name, shape=shape, started_at=new.created_at, uid=uid)
            self._records[uid] = record
        if new.started and not record.began:
            record = self._update(record, began=True)
        if record.misclassification is None and (size := new.misclassification):
            log.error("worker_misclassified", worker=new.name, shape=shape, node=new.spec.node_name, reason=str(size))
            misclassification = MisclassificationRecord(
                node=new.spec.node_name, expected=size.expected, actual=size.actual, observed_at=now()
            )
            record = self._update(record, misclassification=misclassification)
        if record.end_published:
            return
        if new.terminating and not (record.removing or record.end):
            self._record_removal(record)
        elif new.ended and record.end is None and not (record.removing and new.terminating):
            # A worker that is removed as desired also ends before it is gone.
            self._record_end(record, "failed", new.reason)

    def resync(self, present: Iterable[Pod]) -> None:
        """Compares the records with all present pods: the others were removed while no agent was watching."""
        uids = {pod.metadata.uid for pod in present}
        for record in list(self._records.values()):
            if record.uid not in uids:
                self._record_removal(record)

    def mark_removing(self, pods: Iterable[Pod], names: Collection[WorkerName]) -> None:
        """Marks exactly these pods as being removed, before any is deleted. Skips pods that terminate already.

        A victim that is taken back counts as being removed until its deletion cost is reset: until then its controller
        may delete it for the mark that we have set.
        """
        for pod in pods:
            record = self._records.get(pod.metadata.uid)
            if record is None or pod.terminating:
                continue
            removing = pod.name in names or (record.removing and pod.cost < 0)
            if record.removing != removing:
                self._update(record, removing=removing)

    def pending_events(self) -> tuple[WorkerEvent, ...]:
        """Returns the pending events of all pods. A pod's end comes last."""
        return tuple(event for record in self._records.values() for event in record.pending_events())

    def mark_published(self, event: WorkerEvent) -> None:
        """Records the event as published. After its last event, a pod is forgotten once it is gone."""
        record = self._records[event.version]
        if event.fact.kind == "worker.started":
            self._update(record, start_published=True)
        elif record.misclassification is not None and event.fact.kind == "node.misclassified":
            self._update(record, misclassification=record.misclassification.model_copy(update={"published": True}))
        else:
            self._finish_record(record)

    def _finish_record(self, record: PodRecord) -> None:
        if record.uid in self._present:
            self._update(record, end_published=True)
        else:
            self._forget(record)

    def _forget(self, record: PodRecord) -> None:
        self._files.delete(record.key)
        del self._records[record.uid]

    def _record_removal(self, record: PodRecord | None) -> None:
        if record is None:
            return
        if record.end_published:
            self._forget(record)
        elif record.end is not None:
            return
        elif record.removing:
            self._record_end(record, "stopped", "it was removed as desired")
        elif not record.began:
            self._record_end(record, "stopped", "it was no longer desired, and had not started")
        else:
            self._record_loss(record)

    def _record_loss(self, record: PodRecord) -> None:
        if self._another_acts():
            self._finish_record(record)
            return
        LOST.inc()
        log.error("worker_deleted_by_others", worker=record.name, shape=record.shape)
        self._record_end(record, "lost", "somebody else deleted it")

    def _record_end(self, record: PodRecord, end: End, reason: str) -> None:
        if self._another_acts():
            self._finish_record(record)
            return
        log.info("worker_ended", worker=record.name, shape=record.shape, end=end, reason=reason)
        self._update(record, end=end, ended_at=now(), reason=reason)

    def _update(self, record: PodRecord, **change: Any) -> PodRecord:
        changed = replace(record, **change)
        self._files.save(changed)
        self._records[record.uid] = changed
        return changed
