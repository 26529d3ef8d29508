"""Checks the fields of a webhook that no model can check: its URL, its kinds of events, its clusters, its secret.

The events service checks to which IP address the host leads, in each connection.
"""

from collections.abc import Collection, Iterable

from clusterra_contracts.events import KINDS
from clusterra_contracts.webhooks import WebhookFormat
from clusterra_runtime.user_url import UrlRefused, user_url

from clusterra_gateway.http.requests.errors import FieldError, InvalidRequest
from clusterra_gateway.webhooks.signing_secrets import problem_of_secret

FAMILIES = tuple(sorted({kind.partition(".")[0] for kind in KINDS}))
"""The first parts of all kinds of events, such as `job`."""
DIGEST = "job.digest"
_ALL = frozenset({*KINDS, *(f"{family}.*" for family in FAMILIES)} - {DIGEST})
HINT = "a URL looks like https://ci.example.com/hooks/7f3a; the signature proves who sends, so it needs no password"


def check_url(url: str, *, plain_http: bool) -> None:
    """Raises InvalidRequest for a URL to which nothing would be sent. The text does not repeat it.

    `plain_http`: whether this installation allows networks to which deliveries go without TLS.
    """
    try:
        user_url(url, plain_http=plain_http)
    except UrlRefused as refused:
        raise _wrong("url", str(refused), HINT) from None


def check_kinds(kinds: Iterable[str]) -> None:
    """Raises InvalidRequest for kinds and families of events that do not exist."""
    if DIGEST in (wanted := tuple(kinds)):
        hint = "name the kinds that digests count, such as job.failed, and send arrays: digest"
        raise _wrong("kinds", f"{DIGEST} is made of events of other kinds", hint)
    if unknown := [each for each in wanted if each not in _ALL]:
        hint = f"write a kind such as job.failed, or all of one family such as job.*; families: {', '.join(FAMILIES)}"
        raise _wrong("kinds", f"there are no events {', '.join(unknown[:5])}", hint)


def check_clusters(wanted: Iterable[str], known: Collection[str]) -> None:
    """Raises InvalidRequest for clusters that the workspace does not have."""
    if unknown := [each for each in wanted if each not in known]:
        hint = "GET /v1/clusters lists them"
        raise _wrong("clusters", f"the workspace has no cluster {', '.join(unknown[:5])}", hint)


def check_secret(secret: str, form: WebhookFormat) -> None:
    """Raises InvalidRequest for a secret that signs nothing, or that others may guess. The text does not repeat it."""
    if form != "standard":
        raise _wrong("secret", f"nothing is signed with the format {form}", "leave the secret out")
    if problem := problem_of_secret(secret):
        hint = "make one with: echo whsec_$(openssl rand -base64 32); without one, the answer has a new one"
        raise _wrong("secret", problem, hint)


def _wrong(field: str, detail: str, hint: str) -> InvalidRequest:
    return InvalidRequest(f"{field}: {detail}", hint=hint, errors=(FieldError("body", f"#/{field}", detail),))
