"""A tenant's budget, shared out to its clusters.

Each cluster keeps its share by itself, whichever scaler decides for it, so that together they never cost more: no two
decisions can spend the same dollar. What one cluster does not use is no other's.
"""

from collections.abc import Mapping


def shared_out(usd_per_hour: float, caps: Mapping[str, float | None]) -> dict[str, float]:
    """The cap of each cluster in USD per hour: its own where it has one, for the others equal parts of the rest.

    Raises ValueError where there is not enough for all.
    """
    own = {cluster: cap for cluster, cap in caps.items() if cap is not None}
    left = usd_per_hour - sum(own.values())
    without = [cluster for cluster, cap in caps.items() if cap is None]
    if left < 0 or (without and left == 0):
        others = f", and nothing is left for {', '.join(without)}" if without else ""
        raise ValueError(
            f"the clusters have {sum(own.values()):g} USD per hour of the tenant's {usd_per_hour:g}{others}:"
            " raise the budget or lower their policies' usd_per_hour"
        )
    return own | {cluster: left / len(without) for cluster in without}
