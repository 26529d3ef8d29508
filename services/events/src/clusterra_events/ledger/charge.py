"""Money and time of the ledger, in whole numbers only.

Prices are micro-USD per hour, and times are microseconds since 1970. Their product is a **charge**, of which
`CHARGES_PER_MICRO_USD` are one micro-USD. Charges add up exactly: only the end rounds, once.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import accumulate, pairwise

CHARGES_PER_MICRO_USD = 3_600 * 1_000_000
"""An hour in microseconds."""
DAY_MICROSECONDS = 86_400 * 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def microseconds(moment: datetime) -> int:
    """A moment as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(at: int) -> datetime:
    """The reverse of `microseconds`."""
    return _EPOCH + at * _MICROSECOND


def split(charge: int, shares: Sequence[Fraction]) -> tuple[list[int], int]:
    """Split the charge of a worker among jobs, and return their parts and what is left as overhead.

    A share is the part of the worker that a job has, from 0 to 1. Where the shares add up to more than the whole worker
    (one job has most of its memory, another most of its CPUs), each job pays in proportion to its share.
    """
    total = sum(shares, Fraction(0))
    whole = max(total, Fraction(1))
    parts = [charge * share.numerator * whole.denominator // (share.denominator * whole.numerator) for share in shares]
    return parts, charge - sum(parts)


def to_micro_usd(charges: Sequence[int]) -> list[int]:
    """Round charges to whole micro-USD, so that they add up to the rounded total (cumulative rounding).

    What is rounded is the sum up to and including each charge. So an amount depends on the charges before it alone:
    it stays the same whatever is added after it.
    """
    sums = [(total + CHARGES_PER_MICRO_USD // 2) // CHARGES_PER_MICRO_USD for total in accumulate(charges, initial=0)]
    return [after - before for before, after in pairwise(sums)]
