"""`revocation.<tenant>`: a credential of a tenant without clusters, or with very many, allows less than before."""

from typing import Annotated, ClassVar, Literal

from pydantic import StringConstraints

from clusterra_contracts.identity import Wire


class Revocation(Wire):
    """Verify this token, or all credentials of this member, again. A cluster's live events tell the same."""

    schema_name: ClassVar[str] = "revocation.v1"

    of: Literal["token", "member"]
    subject: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The id of the token, or the user name of the member."""
