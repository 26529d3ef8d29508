"""Logs what the decisions of one cluster change, and what waits, each only when it is new."""

import structlog
from clusterra_contracts.events import ShapeChange
from clusterra_contracts.queue import QueueSnapshot

from clusterra_scaler.planner.decide import Decision
from clusterra_scaler.planner.requests.demand import unknown_reasons

log = structlog.get_logger(__name__)

type Intent = tuple[tuple[ShapeChange, ...], frozenset[str]]
"""The shape changes and the requests of a decision, without the requests' reasons: these count seconds, so they would
differ in each decision of shadow mode."""


class DecisionLogger:
    """Remembers what it logged last."""

    def __init__(self) -> None:
        self._unmet: tuple[str, ...] = ()
        self._unknown_reasons: tuple[str, ...] = ()
        self._intent: Intent | None = None
        """What the last decision in shadow mode would have done."""

    def is_new_intent(self, decision: Decision) -> bool:
        """Whether a decision in shadow mode would do something else than the one before."""
        before, self._intent = self._intent, _intent_of(decision)
        return self._intent != before

    def decided(self, decision: Decision, *, shadow: bool = False) -> None:
        """Log the shape changes of a decision; in shadow mode, where they are not sent, also the requests to Slurm."""
        mode = {"shadow": True} if shadow else {}
        for change in decision.changes:
            log.info("scale_decided", generation=decision.state.generation, **change.model_dump(mode="json"), **mode)
        if shadow and decision.actions:
            log.info("slurm_requests_decided", requests=sorted(_intent_of(decision)[1]), **mode)

    def unmet(self, decision: Decision) -> None:
        """Log the jobs for which no workers are bought, with the reasons."""
        if decision.plan is not None:
            unmet = tuple(f"{', '.join(each.demand.job_ids[:5])}: {each.reason}" for each in decision.plan.unmet)
            if unmet != self._unmet:
                log.info("jobs_without_workers", jobs=unmet[:20], groups=len(unmet))
            self._unmet = unmet

    def unknown_reasons(self, snapshot: QueueSnapshot) -> None:
        """Log the reasons of Slurm that the planner does not know."""
        unknown = unknown_reasons(snapshot.pending or ())
        if unknown and unknown != self._unknown_reasons:
            log.warning("unknown_job_reasons", reasons=unknown, consequence="no workers are bought for these jobs")
        self._unknown_reasons = unknown


def _intent_of(decision: Decision) -> Intent:
    return decision.changes, frozenset(f"{type(action).__name__} {action.node}" for action in decision.actions)
