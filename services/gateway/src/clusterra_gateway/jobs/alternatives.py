"""The shapes that the planner compares for a job, as explanations and estimates show them."""

from decimal import Decimal

from clusterra_contracts.alternatives import Alternative, Lack, Verdict
from clusterra_contracts.identity import ShapeName

from clusterra_gateway.http.answers.responses import ResponseBody

_EXACT = Decimal("0.000001")


class ShapeAlternative(ResponseBody):
    """One shape of the cluster, compared for one job or array task at the present prices, limits and failures.

    `usd_per_hour` is the list price of one worker, and `job_usd_per_hour` what the job would pay of its workers: its
    dominant share. `expected_usd` is what the policy `packing` compares: the USD that the job is expected to add in all
    on new workers of its own, with their boots, less a credit for the capacity that it leaves free. It may be negative.
    Both are null where a worker does not hold the job, and `expected_usd` also where list prices or the rule of the
    families decide.

    `verdict` says what becomes of the shape. `chosen`: the job runs on a worker of it, or is planned to. `preferred`:
    it would be bought, and nothing is bought now. `costlier`: it costs more, or as much and comes later. `unneeded`:
    the job alone would cost less here, and its place is on a worker that is there, is coming, or is shared. `by_rule`:
    the rule of the families takes another one. `limited`: a limit of the policy leaves no room. `unavailable`: its
    workers do not start at present. `too_small`: it lacks what `lacks` names. `not_for_it`: the job must not use it.
    `text` says it to people.
    """

    shape: ShapeName
    usd_per_hour: Decimal
    job_usd_per_hour: Decimal | None
    expected_usd: Decimal | None
    verdict: Verdict
    lacks: tuple[Lack, ...]
    text: str

    @classmethod
    def of(cls, alternative: Alternative) -> "ShapeAlternative":
        """What the caller sees of it."""
        job, expected = alternative.job_usd_per_hour, alternative.expected_usd
        return cls.showing(
            alternative,
            usd_per_hour=Decimal(repr(alternative.usd_per_hour)),
            job_usd_per_hour=None if job is None else Decimal(repr(job)).quantize(_EXACT),
            expected_usd=None if expected is None else Decimal(repr(expected)).quantize(_EXACT),
        )
