"""`forget.<tenant>.<cluster>.<service>`: a service removes its own records of a cluster that is deleted."""

from typing import Annotated, ClassVar

from pydantic import Field

from clusterra_contracts.identity import Wire


class Forget(Wire):
    """Remove at most some `most` records of the cluster, which has left the registry. It may be sent again."""

    schema_name: ClassVar[str] = "forget.v1"

    most: Annotated[int, Field(ge=1, le=500)] = 200


class Forgotten(Wire):
    """How many records were removed. After 0, the service has none left that it knows of."""

    schema_name: ClassVar[str] = "forgotten.v1"

    removed: Annotated[int, Field(ge=0)]
