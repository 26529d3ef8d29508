"""`mail-recipients.<tenant>`: the gateway says whom a mail may go to, at the time of sending it."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from clusterra_contracts.identity import Id, Wire
from clusterra_contracts.notifications import Choices

MOST_RECIPIENTS = 20
"""The most people who get a mail about one event. There are several only where it is about a whole workspace."""


class ReadRecipients(Wire):
    """Read to whom mails go. Members who are disabled or deleted are left out, and so are service accounts."""

    schema_name: ClassVar[str] = "mail.read-recipients.v1"

    cluster: Id
    """The cluster on which `user` is the user name."""
    user: Annotated[str, StringConstraints(max_length=64)] = ""
    """The owner of a job, a session, a run or a budget. Empty: the admins."""
    uid: Annotated[int, Field(ge=0)] | None = None
    """The owner's uid, where it is known: a name alone does not prove who it is."""


class Recipient(Wire):
    """A person who may get mails."""

    member: str
    """The id of the member."""
    address: Annotated[str, StringConstraints(max_length=320)] = Field(repr=False)
    """Their own verified address. It is in no event and in no log."""
    choices: Choices = Choices()


class Recipients(Wire):
    """The people who may get a mail."""

    schema_name: ClassVar[str] = "mail.recipients.v1"

    recipients: Annotated[tuple[Recipient, ...], Field(max_length=MOST_RECIPIENTS)] = ()
