"""The generation of these contracts, and which generations can share one bus.

A change of the contracts that the previous release cannot read, or whose previous form this release cannot read,
raises `GENERATION`. `libs/contracts/tests/test_compatibility.py` finds such changes. A release with a new generation
still reads and writes what the generations from `OLDEST` on understand, so that services are updated one after another.
"""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from clusterra_contracts.identity import Moment, Wire

GENERATION = 1
"""The generation of these contracts."""
OLDEST = 1
"""The oldest generation that this release can share a bus with."""

ServiceName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{0,38}$")]
InstanceName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,128}$")]
"""The name of one replica: a token of the key of its announcement."""

RENEW_SECONDS = 5.0
"""How often a service renews its announcement."""
LIFE_SECONDS = 20
"""How long an announcement lives without renewal; whole seconds."""


class Contracts(Wire):
    """The generations of the contracts that a release can work with: from `oldest` to `generation`."""

    generation: Annotated[int, Field(ge=1)]
    oldest: Annotated[int, Field(ge=1)]

    def works_with(self, other: "Contracts") -> bool:
        """Whether both can share a bus. A release knows only older ones, so each side states its oldest."""
        return self.oldest <= other.generation and other.oldest <= self.generation

    def __str__(self) -> str:
        return f"{self.generation}" if self.oldest == self.generation else f"{self.oldest} to {self.generation}"


CONTRACTS = Contracts(generation=GENERATION, oldest=OLDEST)
"""Those of this release."""
UNSTATED = Contracts(generation=1, oldest=1)
"""Those of agents whose heartbeats do not state them: they are older than the statement."""


class Announcement(Wire):
    """One replica of a central service, in the bucket `versions`. It lives as long as it is renewed."""

    schema_name: ClassVar[str] = "service.announcement.v2"

    service: ServiceName
    instance: InstanceName
    software: Annotated[str, Field(max_length=128)]
    """The version of its software, for people to read."""
    contracts: Contracts
    working: bool
    """Whether it has begun to work. Before that it waits until no incompatible service works."""
    joined: Annotated[int, Field(ge=0)] = 0
    """The bucket's sequence of the replica's first announcement, which itself has 0."""
    login_expires_at: Moment | None = None
    """When its login at NATS ends; None where it does not, or is not known to."""
    record_form: Annotated[int, Field(ge=0)] = 0
    """The form of the records that the replica writes, as its service counts them; 0: the release does not say."""

    @property
    def key(self) -> str:
        """The key of the announcement in the bucket."""
        return f"{self.service}.{self.instance}"

    def __str__(self) -> str:
        return f"{self.service} {self.instance} (version {self.software}, contracts {self.contracts})"
