"""Which gateway, which cluster and whose token a client has: what its caller gave, the environment, or the context."""

import os
from dataclasses import dataclass

from clusterra.context import CLUSTER, URL, ConfigError, canonical_url, load
from clusterra.credentials import TOKEN, Credentials, FixedToken, StoredToken, checked_token


@dataclass(frozen=True, slots=True)
class Target:
    """One gateway, the cluster that is meant where none is named, and where the token comes from."""

    url: str
    cluster: str | None
    credentials: Credentials


def chosen_target(url: str | None, token: str | Credentials | None, cluster: str | None) -> Target:
    """The target of a client. What the caller gives takes precedence over the environment, and that over the context.

    The cluster of the context counts only for its own gateway. Raises ConfigError where no gateway is known.
    """
    # What is given whole needs no file: a bad one would only be in the way.
    context = None if url and cluster else load().chosen
    given = url or os.environ.get(URL) or (context.url if context is not None else None)
    if not given:
        raise ConfigError("no gateway is known: run `clusterra login URL`, or set CLUSTERRA_URL")
    address = canonical_url(given)
    of_context = context.cluster if context is not None and context.url == address else None
    return Target(address, cluster or os.environ.get(CLUSTER) or of_context, _credentials(address, token))


def _credentials(url: str, token: str | Credentials | None) -> Credentials:
    if isinstance(token, str):
        return FixedToken(checked_token(token))
    if token is not None:
        return token
    from_environment = os.environ.get(TOKEN)
    return FixedToken(checked_token(from_environment)) if from_environment else StoredToken(url)
