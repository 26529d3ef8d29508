"""Prints `docs/reference/events.md`: every kind of event, from the catalogue in the contracts.

`make docs` writes the page, `make lint` compares it.
"""

import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby

from clusterra_contracts.event_kinds import MEANINGS, example
from clusterra_contracts.events import AUDITED_KINDS, fact_model
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import may_see, owner_uid

HEAD = """\
# Events

<!-- Made by `make docs` from the catalogue of events in `libs/contracts`. Do not edit. -->

What happens in a cluster is told once, as a [CloudEvent](https://cloudevents.io) 1.0 in structured JSON. Events hold
metadata alone: never a script, an environment, an output or the content of a file.

- **Where.** On NATS the subject is `event.<tenant>.<cluster>.<kind>`. Over HTTP they are at
  `GET /v1/clusters/<cluster>/events`, as pages of the archive and as a live stream.
- **Once.** The `id` follows from the fact: `<tenant>.<cluster>:<entity>:<version>:<kind>`. An event that is published
  again has the same `id`.
- **Order.** Events have the order of the stream. `time` says when the fact happened, as far as known.
- **New kinds.** A release may add kinds and fields. Ignore those that you do not know. A check refuses a change that
  would break a reader of the release before.
- **Arrays.** Each task of an array has its own events, with ids such as `42_7`.

Who sees an event: **owner** is the user of the job, the run or the files; **all** are those who may see everybody's
jobs. Admins see every event, and those of some kinds nobody else does. Kinds with a star are in the audit.

The schemas are in [asyncapi.json](../asyncapi.json), with an example of each kind.
"""


STRANGER = 30000
"""The uid of somebody whom no example is about."""


def main() -> None:
    """Print the page."""
    sys.stdout.write(HEAD)
    for family, kinds in groupby(MEANINGS, key=lambda kind: kind.partition(".")[0]):
        sys.stdout.write(f"\n## {family}\n\n| kind | what it says | who sees it |\n|---|---|---|\n")
        listed = tuple(kinds)
        for kind in listed:
            star = "\\*" if kind in AUDITED_KINDS else ""
            sys.stdout.write(f"| `{kind}`{star} | {MEANINGS[kind]} | {seen_by(kind)} |\n")
        for model in dict.fromkeys(fact_model(kind) for kind in listed):
            first = next(kind for kind in listed if fact_model(kind) is model)
            sys.stdout.write(f"\n{inspect.getdoc(model)}\n\n```json\n{data(first)}\n```\n")


def data(kind: str) -> str:
    """The `data` of the example of a kind, as JSON."""
    return json.dumps(example(kind).data.model_dump(mode="json", exclude_none=True), indent=1)


def seen_by(kind: str) -> str:
    """Who sees the events of a kind, by the one rule of visibility."""
    fact = example(kind).data
    uid = owner_uid(fact)
    of = _viewer(STRANGER), _viewer(STRANGER, sees_all=True), _viewer(STRANGER if uid is None else uid)
    stranger, seer, owner = (may_see(viewer, fact) for viewer in of)
    return next(_named([(stranger, "everybody"), (owner and seer, "owner, all"), (owner, "owner"), (seer, "all")]))


def _named(found: Iterable[tuple[bool, str]]) -> Iterator[str]:
    yield from (name for holds, name in found if holds)
    yield "admins"


def _viewer(uid: int, *, sees_all: bool = False) -> Viewer:
    user = SlurmUser(name="someone", uid=uid, gid=uid)
    return Viewer(user=user, sees_all=sees_all)


if __name__ == "__main__":
    main()
