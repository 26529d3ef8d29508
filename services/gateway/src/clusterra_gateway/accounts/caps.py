"""Divides a tenant's cap, in USD per hour, among its clusters.

Each cluster keeps within its own share, whichever scaler decides for it. So the clusters together never cost more than
the tenant's cap: no two decisions can spend the same dollar. A share that one cluster does not use is not available to
the others.
"""

from collections.abc import Mapping


def cluster_caps(usd_per_hour: float, caps: Mapping[str, float | None]) -> dict[str, float]:
    """The cap of each cluster in USD per hour: its own where it has one; the others share the rest equally.

    Raises ValueError where the tenant's cap does not suffice for all.
    """
    own = {cluster: cap for cluster, cap in caps.items() if cap is not None}
    left = usd_per_hour - sum(own.values())
    without = [cluster for cluster, cap in caps.items() if cap is None]
    if left < 0 or (without and left == 0):
        others = f", and nothing is left for {', '.join(without)}" if without else ""
        raise ValueError(
            f"the clusters' own caps take {sum(own.values()):g} USD per hour of the tenant's {usd_per_hour:g}{others}:"
            " raise the tenant's cap or lower usd_per_hour in the clusters' policies"
        )
    return own | {cluster: left / len(without) for cluster in without}
