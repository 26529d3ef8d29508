"""The Kaplan-Meier estimator: the share of durations that exceed a time, from partly censored observations.

E. L. Kaplan, P. Meier, Nonparametric Estimation from Incomplete Observations, JASA 53 (1958).
"""

from collections.abc import Iterable, Iterator


def survival(observed: Iterable[float], censored: Iterable[float]) -> Iterator[tuple[float, float]]:
    """For each observed duration, ascending: its seconds, and the estimated share of durations that are longer.

    `censored` are the seconds after which an observation stopped: the true duration is longer.
    """
    # Of equal times the observed ends come first: a censored duration is longer than its time.
    durations = sorted([(seconds, False) for seconds in observed] + [(seconds, True) for seconds in censored])
    longer = 1.0
    for before, (seconds, is_censored) in enumerate(durations):
        if not is_censored:
            longer *= 1 - 1 / (len(durations) - before)
            yield seconds, longer
