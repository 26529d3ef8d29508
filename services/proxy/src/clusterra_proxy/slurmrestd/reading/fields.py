"""The values of Slurm's records, each typed and bounded.

Any user can submit a job with extreme values, such as `--begin=uts300000000000`. A time beyond `LATEST` becomes
`LATEST`: Slurm means it, but Python's calendar does not have it. All other values out of bounds are errors of their
record.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

from clusterra_contracts.events import MAIL_TYPES
from pydantic import AfterValidator, AwareDatetime, BeforeValidator, FailFast, Field

from clusterra_proxy.slurmrestd.notation import array_tasks, hostlist

NO_VALUES = frozenset({0xFFFFFFFE, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFE, 0xFFFFFFFFFFFFFFFF})
"""Slurm's NO_VAL and INFINITE in 32 and 64 bits: plain numbers that mean "not set"."""
MEMBERS_ACCOUNT = "clusterra-members"
"""The account in slurmdbd of jobs that name none. Behind the proxy such a job has no account."""
YEAR_MINUTES = 365 * 24 * 60
"""The time limit that Slurm gives a job without one in a partition without one."""
EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""The latest time of a record. It leaves a year for calculations: the last one of Python's calendar is 9999."""

_FEW = 100
_LATEST_SECONDS = int(LATEST.timestamp())


def _number(value: Any) -> Any:
    if isinstance(value, dict):
        if not value.get("set") or value.get("infinite"):
            return None
        value = value.get("number")
    return None if isinstance(value, int) and value in NO_VALUES else value


def _limit(minutes: int | None) -> int | None:
    return None if minutes == YEAR_MINUTES else minutes


def _moment(value: Any) -> Any:
    seconds = _number(value)
    if isinstance(seconds, int):
        return datetime.fromtimestamp(min(seconds, _LATEST_SECONDS), UTC) if seconds > 0 else None
    return seconds


def _within_calendar(moment: datetime | None) -> datetime | None:
    if moment is None or (moment.tzinfo is UTC and EARLIEST <= moment <= LATEST):
        return moment
    return max(min(moment, LATEST), EARLIEST).astimezone(UTC)


def _bounded_hosts(expression: str) -> str:
    if not expression.isalnum():
        hostlist.count(expression)
    return expression


def _bounded_tasks(expression: str) -> str:
    # Most jobs are no arrays.
    if expression:
        array_tasks.check(expression)
    return expression


def _text(value: Any) -> Any:
    return "" if value is None else value


def _named_account(name: str) -> str:
    return "" if name == MEMBERS_ACCOUNT else name


def _items(value: Any) -> Any:
    return () if value is None else value


def _first_few(value: Any) -> Any:
    return value[:_FEW] if isinstance(value, list) else value


def _mail_types(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return () if value is None else value
    # slurmrestd names the types of time limits in its own way.
    words = ("TIME_LIMIT" if each == "TIME=100%" else each for each in value[:_FEW])
    return tuple(word for word in words if word in MAIL_TYPES)


Count = Annotated[int, Field(ge=0, lt=2**63)]
"""A number that every record has."""
Number = Annotated[Count | None, BeforeValidator(_number)]
"""A number, or None for Slurm's "not set" and "infinite"."""
TimeLimit = Annotated[Number, AfterValidator(_limit)]
"""Minutes, or None without a limit."""
Uid = Annotated[int, Field(ge=0, lt=2**32)]
JobNumber = Annotated[int, Field(ge=1, lt=10**10)]
"""The number of a job record."""
OtherJob = Annotated[Annotated[int, Field(ge=0, lt=10**10)] | None, BeforeValidator(_number)]
"""The number of another job record, such as an array's; 0 or None for none."""
ArrayTask = Annotated[Annotated[int, Field(ge=0, lt=10**7)] | None, BeforeValidator(_number)]
"""The number of a task in its array."""
Time = Annotated[AwareDatetime | None, BeforeValidator(_moment), AfterValidator(_within_calendar)]
"""A time in seconds since the epoch, or None for "never"."""
Text = Annotated[str, BeforeValidator(_text)]
"""A string; null becomes the empty string."""
Account = Annotated[str, BeforeValidator(_text), AfterValidator(_named_account)]
"""The account that a job names, or the empty string: also where Slurm books it on MEMBERS_ACCOUNT."""
Hosts = Annotated[str, BeforeValidator(_text), AfterValidator(_bounded_hosts)]
"""A hostlist expression of `hostlist.MAX_HOSTS` at most."""
ArrayTasks = Annotated[str, BeforeValidator(_text), AfterValidator(_bounded_tasks)]
"""The waiting tasks of an array, such as `0-2,4%2`: `array_tasks.MAX_TASKS` at most."""
States = Annotated[tuple[str, ...], Field(min_length=1), FailFast()]
"""A base state and its flags."""
type NullableList[T] = Annotated[tuple[T, ...], FailFast(), BeforeValidator(_items)]
"""A list. slurmrestd writes null for some empty lists. FailFast here and below: a list ends at its first wrong item, as
each error takes microseconds and a tenant's server may send a million."""
Texts = Annotated[tuple[str, ...], FailFast()]
"""A list of strings."""
MailTypes = Annotated[tuple[str, ...], FailFast(), BeforeValidator(_mail_types)]
"""Those of `--mail-type` that have an effect, in sbatch's words."""
FirstFew = BeforeValidator(_first_few)
"""Of a list of which only the first few items are read."""
