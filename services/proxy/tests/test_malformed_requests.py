"""Malformed requests are answered as invalid and stored as dead letters."""

import json
from typing import ClassVar

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import DLQ
from clusterra_contracts.identity import SlurmUser
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.direct import replay
from proxy_world import ProxyWorld, submission


class Garbage:
    """A message that no service would send."""

    schema_name: ClassVar[str] = "garbage"

    def __init__(self, text: str) -> None:
        self._text = text

    def model_dump_json(self) -> str:
        return self._text


@pytest.mark.parametrize(
    "change",
    [
        {"job": {"environment": []}},
        {"job": {"environment": ["A=b"], "user_id": 0}},
        {"job": {"environment": ["A=b"], "comment": "mine"}},
        {"script": ""},
        {"user": {"name": "alice", "uid": 0, "gid": 0}},
        {"idempotency_key": "no"},
        None,
    ],
)
async def test_a_malformed_request_is_invalid_and_a_dead_letter(
    proxy: ProxyWorld, alice: SlurmUser, change: dict[str, object] | None
) -> None:
    request = submission(alice).model_dump(mode="json")
    text = "not json" if change is None else json.dumps(request | change)

    assert (await proxy.error_of("submit", Garbage(text))).kind == "invalid"

    subject = subjects.dead_letter(subjects.slurm(proxy.ref, "submit"))

    async def stored() -> bool:
        return any([message.body == text.encode() async for message in replay(proxy.client, DLQ.name, subject)])

    await until(stored, seconds=90, what="the dead letter")
