"""Reads a site's users from the text of its passwd(5) and group(5) files."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clusterra_contracts.identity import MAX_GROUPS
from clusterra_contracts.wrong_values import summary
from pydantic import ValidationError

from clusterra_gateway.directory.maps.entries import MapEntry, ReadMap, Refused

FIRST_ID = 1000
"""The lowest uid and gid of people. Lower ones are the system's: a job gets none of them."""


@dataclass(frozen=True, slots=True)
class Account:
    """A user as a directory has them: a line of passwd, or a posixAccount."""

    name: str
    uid: int
    gid: int
    home: str | None
    emails: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A group as a directory has it: a line of group, or a posixGroup."""

    name: str
    gid: int
    members: tuple[str, ...]


def read_files(passwd: str, group: str, email_domain: str | None) -> ReadMap:
    """Reads the users from FIRST_ID on. Each user's address is their name in `email_domain`.

    A line that cannot be read is refused, with its number and never its content.
    """
    refused: list[Refused] = []
    accounts = [
        Account(fields[0], uid, gid, fields[5] or None, (f"{fields[0]}@{email_domain}",) if email_domain else ())
        for fields, uid, gid in _lines("passwd", passwd, 7, (2, 3), refused)
        if uid >= FIRST_ID
    ]
    groups = [
        Group(fields[0], gid, tuple(filter(None, fields[3].split(","))))
        for fields, gid, _ in _lines("group", group, 4, (2, 2), refused)
    ]
    read = entries_of(accounts, groups)
    return ReadMap(read.entries, (*refused, *read.refused))


def entries_of(accounts: Sequence[Account], groups: Sequence[Group]) -> ReadMap:
    """Joins users with their groups. Groups below FIRST_ID, such as `docker`, are left out: they are the machine's."""
    names = {group.gid: group.name for group in groups}
    memberships = defaultdict[str, set[int]](set)
    for group in groups:
        for member in group.members:
            if group.gid >= FIRST_ID:
                memberships[member].add(group.gid)
    entries: list[MapEntry] = []
    refused: list[Refused] = []
    for account in accounts:
        further = sorted(memberships[account.name] - {account.gid})
        if len(further) > MAX_GROUPS:
            refused.append(Refused(account.name, f"in {len(further)} groups: a user may be in {MAX_GROUPS}"))
            continue
        try:
            entries.append(
                MapEntry(
                    name=account.name,
                    uid=account.uid,
                    gid=account.gid,
                    group=names.get(account.gid),
                    groups=tuple(further),
                    group_names=tuple(names[gid] for gid in further),
                    home=account.home,
                    emails=account.emails,
                )
            )
        except ValidationError as error:
            refused.append(Refused(account.name[:64], mistakes(error)))
    return ReadMap(tuple(entries), tuple(refused))


def mistakes(error: ValidationError) -> str:
    """What is wrong with an entry, without its values."""
    return summary(error, whole="entry", most=3)


def _lines(
    file: str, text: str, count: int, numbers: tuple[int, int], refused: list[Refused]
) -> Iterator[tuple[list[str], int, int]]:
    """The fields of each line, with two of them as numbers."""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = line.strip().split(":")
        given = [fields[index] for index in numbers if index < len(fields)]
        if len(fields) != count or not all(each.isascii() and each.isdecimal() and len(each) < 11 for each in given):
            refused.append(Refused(f"{file}:{number}", f"a line of {file} has {count} fields, and numbers as ids"))
            continue
        yield fields, int(given[0]), int(given[1])
