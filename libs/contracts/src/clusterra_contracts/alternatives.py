"""The shapes that the planner compares for a job, and what becomes of each: for explanations and decisions."""

import operator
from typing import Annotated, Literal

from pydantic import FailFast, Field

from clusterra_contracts.identity import ShapeName, Wire

Verdict = Literal[
    "chosen",
    "preferred",
    "costlier",
    "unneeded",
    "by_rule",
    "limited",
    "unavailable",
    "too_small",
    "not_for_it",
]
"""What the planner makes of a shape for a job.

`chosen`: the job runs on a worker of this shape, or is planned to. `preferred`: the planner would take it, and takes
none now. `costlier`: it costs more than the chosen or preferred shape, or as much and comes after it. `unneeded`: the
job alone would cost less here, and its place is on a worker that is there, is coming, or is shared with other jobs.
`by_rule`: the rule of the families takes another shape, whatever the costs. `limited`: a limit of the policy leaves no
room for it. `unavailable`: its workers do not start at present. `too_small`: `lacks` tells of what. `not_for_it`: the
job must not use it, whatever its size."""

Lack = Literal["cpus", "memory", "gpus"]
"""What a worker has too little of; `gpus` are all generic resources."""

MOST_ALTERNATIVES = 20
"""Maximum number of alternatives of a job."""
MOST_OF_CHANGE = 5
"""Maximum number of alternatives in one change of an event `scale.decided`."""


class Alternative(Wire):
    """One shape of the catalogue, compared for one job or array task.

    The job is compared as if it had new workers of this shape for itself.
    """

    shape: ShapeName
    usd_per_hour: float
    """The list price of one worker."""
    verdict: Verdict
    job_usd_per_hour: float | None = None
    """The job's share of the price of its workers of this shape, on all its nodes: its dominant share, by which it is
    charged. None where a worker does not hold it."""
    expected_usd: float | None = None
    """What the packing compares: the USD that the job is expected to add in all, with the boots of its workers, less a
    credit for the capacity that it leaves free. It may be negative. None where a worker does not hold the job, and
    where the planner decides by list prices or by the rule of the families."""
    lacks: Annotated[tuple[Lack, ...], FailFast()] = ()
    """For `too_small`: what a worker of this shape has too little of."""
    text: str
    """The verdict for people to read."""


Alternatives = Annotated[tuple[Alternative, ...], Field(max_length=MOST_ALTERNATIVES)]
"""The shapes of the catalogue, the nearest first: no shape twice. Empty where the planner does not plan for the job,
and from a release that does not tell."""


AlternativesOfChange = Annotated[tuple[Alternative, ...], Field(max_length=MOST_OF_CHANGE, exclude_if=operator.not_)]
"""The same for a change of the desired state, left out where it is empty: the release before reads such a record."""
