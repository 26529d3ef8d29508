"""`revocation.<tenant>`: a credential allows less than before, and no event of a cluster tells it at once."""

from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from clusterra_contracts.identity import Wire


class Revocation(Wire):
    """Verify this credential, or all credentials of this member, again.

    Every sign-out is told so. Of tokens and members, a cluster's live events tell the same, but for tenants without
    clusters or with very many.
    """

    schema_name: ClassVar[str] = "revocation.v1"

    of: Literal["token", "member"]
    subject: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """Of a `token`, its id, or that of a session: the release before knows no other value. Of a `member`, the user
    name."""
