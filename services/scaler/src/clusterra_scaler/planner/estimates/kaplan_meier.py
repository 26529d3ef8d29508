"""How much of what is waited for still goes on after so long, where not everything was seen to its end.

E. L. Kaplan, P. Meier, Nonparametric Estimation from Incomplete Observations, JASA 53 (1958).
"""

from collections.abc import Iterable, Iterator


def survival(ended: Iterable[float], unended: Iterable[float]) -> Iterator[tuple[float, float]]:
    """For each that ended, the shortest first: its seconds, and the share that is estimated to take longer.

    `unended` are the seconds after which nobody looked any more: such a one is known to take longer than that.
    """
    # Of equal times those that ended come first: the others took longer.
    observation = sorted([(seconds, False) for seconds in ended] + [(seconds, True) for seconds in unended])
    longer = 1.0
    for before, (seconds, was_unended) in enumerate(observation):
        if not was_unended:
            longer *= 1 - 1 / (len(observation) - before)
            yield seconds, longer
