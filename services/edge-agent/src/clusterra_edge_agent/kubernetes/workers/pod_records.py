"""What has been told of each pod and what its end will mean, kept over restarts of the agent."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import structlog
from clusterra_contracts.events import MachineSize, MisclassifiedFact
from clusterra_contracts.identity import Moment, ShapeName, WorkerName, now
from prometheus_client import Counter
from pydantic import BaseModel, ConfigDict
from pydantic.dataclasses import dataclass

from clusterra_edge_agent.kubernetes.client.resources import Pod
from clusterra_edge_agent.substrate.port import News
from clusterra_edge_agent.substrate.records import End, Records, WorkerRecord

log = structlog.get_logger(__name__)

LOST = Counter("clusterra_edge_workers_lost_total", "Workers that were deleted though nobody had named them")


class Refusal(BaseModel):
    """That a worker's slurmd did not register, since its node is not what its shape promises."""

    model_config = ConfigDict(frozen=True)

    node: str
    expected: MachineSize
    actual: MachineSize
    seen_at: Moment
    told: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRecord(WorkerRecord):
    """A worker that is a pod. `removing`: it is a victim, or was surplus before it had started."""

    uid: str
    began: bool = False
    """Whether it ever started: what never did was no worker that could be lost."""
    end_told: bool = False
    """Nothing more will be told of it: it waits for its pod to be removed."""
    refusal: Refusal | None = None

    @property
    def key(self) -> str:
        """Its uid: a NodeSet gives the name of a pod to the next one."""
        return self.uid

    @property
    def version(self) -> str:
        """Its uid."""
        return self.uid

    def news(self) -> Iterator[News]:
        """What has not been told yet; its end comes last."""
        if self.refusal is not None and not self.refusal.told:
            refusal = self.refusal
            fact = MisclassifiedFact(
                node=refusal.node, shape=self.shape, expected=refusal.expected, actual=refusal.actual
            )
            # Of a node there may be several: the pod tells them apart.
            yield News(self.name, fact, version=self.uid, time=refusal.seen_at)
        if not self.end_told:
            yield from WorkerRecord.news(self)


class PodRecords:
    """Makes facts of what happens to pods.

    A victim that goes is `stopped`, as is a pod that was deleted before it started, even if its containers still start;
    one whose containers end has `failed`. Any other worker that goes is `lost`. Both are told from the moment that the
    deletion is seen. What ends while another agent acts is that one's to tell. All raise OSError when the folder cannot
    be used.
    """

    def __init__(self, folder: Path, another_acts: Callable[[], bool] = lambda: False) -> None:
        """Raises state.StateUnreadable."""
        self._another_acts = another_acts
        self._files = Records(folder, PodRecord)
        self._known = {record.uid: record for record in self._files.load()}
        self._present: set[str] = set()

    def observe(self, old: Pod | None, new: Pod | None, shape: ShapeName) -> None:
        """A pod came, changed or went."""
        if new is None:
            assert old is not None  # noqa: S101 - something changed
            self._present.discard(old.metadata.uid)
            self._gone(self._known.get(old.metadata.uid))
            return
        uid = new.metadata.uid
        self._present.add(uid)
        record = self._known.get(uid)
        if record is None:
            record = PodRecord(name=new.name, shape=shape, started_at=new.created_at, uid=uid)
            self._known[uid] = record
        if new.started and not record.began:
            record = self._keep(record, began=True)
        if record.refusal is None and (size := new.misclassification):
            log.error("worker_misclassified", worker=new.name, shape=shape, node=new.spec.node_name, reason=str(size))
            refusal = Refusal(node=new.spec.node_name, expected=size.expected, actual=size.actual, seen_at=now())
            record = self._keep(record, refusal=refusal)
        if record.end_told:
            return
        if new.terminating and not (record.removing or record.end):
            self._gone(record)
        elif new.over and record.end is None and not (record.removing and new.terminating):
            # A worker that is removed as desired is over, too, before it has gone.
            self._end(record, "failed", new.reason)

    def compare(self, present: Iterable[Pod]) -> None:
        """All pods there are: what is known besides has gone while no agent watched."""
        uids = {pod.metadata.uid for pod in present}
        for record in list(self._known.values()):
            if record.uid not in uids:
                self._gone(record)

    def expect_to_go(self, pods: Iterable[Pod], names: Collection[WorkerName]) -> None:
        """These of the pods may go, others not any more unless they already do. On disk before anything is done."""
        for pod in pods:
            record = self._known.get(pod.metadata.uid)
            if record is not None and not pod.terminating and record.removing != (pod.name in names):
                self._keep(record, removing=pod.name in names)

    def untold(self) -> tuple[News, ...]:
        """Facts of all pods; a pod's end comes last."""
        return tuple(news for record in self._known.values() for news in record.news())

    def told(self, news: News) -> None:
        """This fact has been told; after the last one the pod is forgotten as soon as it is gone."""
        record = self._known[news.version]
        if news.fact.kind == "worker.started":
            self._keep(record, start_told=True)
        elif record.refusal is not None and news.fact.kind == "node.misclassified":
            self._keep(record, refusal=record.refusal.model_copy(update={"told": True}))
        else:
            self._end_is_told(record)

    def _end_is_told(self, record: PodRecord) -> None:
        if record.uid in self._present:
            self._keep(record, end_told=True)
        else:
            self._forget(record)

    def _forget(self, record: PodRecord) -> None:
        self._files.delete(record.key)
        del self._known[record.uid]

    def _gone(self, record: PodRecord | None) -> None:
        if record is None:
            return
        if record.end_told:
            self._forget(record)
        elif record.end is not None:
            return
        elif record.removing:
            self._end(record, "stopped", "it was removed as desired")
        elif not record.began:
            self._end(record, "stopped", "it was not wanted any more before it started")
        else:
            self._lose(record)

    def _lose(self, record: PodRecord) -> None:
        if self._another_acts():
            self._end_is_told(record)
            return
        LOST.inc()
        log.error("worker_deleted_by_others", worker=record.name, shape=record.shape)
        self._end(record, "lost", "it was deleted by somebody else")

    def _end(self, record: PodRecord, end: End, reason: str) -> None:
        if self._another_acts():
            self._end_is_told(record)
            return
        log.info("worker_ended", worker=record.name, shape=record.shape, end=end, reason=reason)
        self._keep(record, end=end, ended_at=now(), reason=reason)

    def _keep(self, record: PodRecord, **change: Any) -> PodRecord:
        changed = replace(record, **change)
        self._files.save(changed)
        self._known[record.uid] = changed
        return changed
