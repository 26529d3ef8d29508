"""Prints `docs/reference/events.md`: every kind of event, from the catalogue in the contracts.

`make docs` writes the page, `make lint` compares it.
"""

import inspect
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import groupby

from clusterra_contracts.event_kinds import MEANINGS, example
from clusterra_contracts.events import AUDITED_KINDS, Event, fact_model
from clusterra_contracts.identity import SlurmUser, Wire
from clusterra_contracts.rpc.slurm import Viewer
from clusterra_contracts.rpc.visibility import may_see, owner_uid
from field_docstrings import meanings

HEAD = """\
# Events

<!-- Made by `make docs` from the catalogue of events in `libs/contracts`. Do not edit. -->

Each thing that happens in a cluster is published once, as a [CloudEvent](https://cloudevents.io) 1.0 in structured
JSON. Events hold metadata alone: never a script, an environment, an output or the content of a file.

- **Where.** Over HTTP `GET /v1/clusters/<cluster>/events` returns pages of the archive, and
  `GET /v1/clusters/<cluster>/events/stream` is a live stream. `/v1/events` and `/v1/events/stream` have those of a
  whole workspace. [Exports](../operations/events.md#export) are files, and [webhooks](../guide/webhooks.md) deliver
  events to other systems. On NATS the subject is `event.<tenant>.<cluster>.<kind>`.
- **Once.** The `id` is derived from what happened: `<tenant>.<cluster>:<subject>:<version>:<kind>`. An event that is
  published again has the same `id`.
- **Order.** Events are in the order of the stream, which need not be that of their `time`.
- **New kinds.** A release may add kinds and fields. Ignore those that you do not know. A check refuses a change that
  would break a reader of the release before.
- **Arrays.** Each task of an array has its own events, with ids such as `42_7`.

Who sees an event: **owner** is the user of the job, the run or the files; **all** are those who may see everybody's
jobs. Admins see every event, and nobody else sees those of some kinds. Kinds with a star are in the audit.

The schemas are in [asyncapi.json](../asyncapi.json), with an example of each kind. The examples leave out fields
without a value, which are `null` in an event. Times are in UTC.

## The form of an event
"""

STRANGER = 30000
"""The uid of somebody whom no example is about."""


def main() -> None:
    """Print the page."""
    sys.stdout.write(HEAD)
    sys.stdout.write(f"{_fields(Event)}\n```json\n{_json(example('job.failed'))}\n```\n")
    described: dict[type[Wire], str] = {}
    for family, kinds in groupby(MEANINGS, key=lambda kind: kind.partition(".")[0]):
        sys.stdout.write(f"\n## {family}\n\n| kind | what it says | who sees it |\n|---|---|---|\n")
        listed = tuple(kinds)
        for kind in listed:
            star = "\\*" if kind in AUDITED_KINDS else ""
            sys.stdout.write(f"| `{kind}`{star} | {MEANINGS[kind]} | {seen_by(kind)} |\n")
        for model in dict.fromkeys(fact_model(kind) for kind in listed):
            shown = max((data(kind) for kind in listed if fact_model(kind) is model), key=len)
            before = described.setdefault(model, family)
            fields = _fields(model) if before == family else f"Its fields are those of [{before}](#{before}).\n"
            sys.stdout.write(f"\n{inspect.getdoc(model)}\n{fields}\n```json\n{shown}\n```\n")


def data(kind: str) -> str:
    """The `data` of the example of a kind, as JSON."""
    return _json(example(kind).data)


def _json(shown: Wire) -> str:
    return json.dumps(shown.model_dump(mode="json", exclude_none=True), indent=1)


def _fields(model: type[Wire]) -> str:
    """A table of the fields whose names do not say everything; empty without any."""
    # The docstrings are for Python, and the readers of this page see JSON.
    rows = [f"| `{name}` | {text.replace('None', 'null')} |\n" for name, text in meanings(model, Wire).items()]
    return "".join(["\n| field | meaning |\n|---|---|\n", *rows]) if rows else ""


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
