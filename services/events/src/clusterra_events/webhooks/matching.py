"""Which events a webhook gets."""

from clusterra_contracts.events import (
    DigestFact,
    Event,
    Fact,
    JobActionFact,
    JobFact,
    RunFact,
    SessionFact,
    StagingFact,
)
from clusterra_contracts.webhooks import Webhook

_OfSomebody = JobFact | JobActionFact | StagingFact | DigestFact | SessionFact | RunFact


def concerns(webhook: Webhook, cluster: str, event: Event) -> bool:
    """Whether a webhook gets an event of one of its tenant's clusters."""
    if not may_concern(webhook, cluster, event.kind):
        return False
    return not webhook.users or _user_of(event.data) in webhook.users


def may_concern(webhook: Webhook, cluster: str, kind: str) -> bool:
    """Whether a webhook may get an event of this kind, as far as its subject tells: the users are not in it."""
    if webhook.clusters and cluster not in webhook.clusters:
        return False
    return not webhook.kinds or any(_is_of(kind, each) for each in webhook.kinds)


def _is_of(kind: str, wanted: str) -> bool:
    return kind.startswith(wanted[:-1]) if wanted.endswith(".*") else kind == wanted


def _user_of(fact: Fact) -> str | None:
    """The user of the job, the run or the session that a fact is about; None for other facts."""
    return fact.user if isinstance(fact, _OfSomebody) else None
