"""What the client does when another transaction is writing the same item."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from clusterra_runtime.store.dynamodb_client import CONFLICT_ATTEMPTS, Client
from clusterra_runtime.store.store import StoreUnavailable


class Conflicting:
    """Answers with a conflict `times` times, and then with an item."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls = 0

    def serves(self, _operation: str) -> bool:
        """Whether it answers."""
        return True

    async def call(self, _operation: str, _request: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one request."""
        self.calls += 1
        if self.calls <= self.times:
            raise ClientError({"Error": {"Code": "TransactionConflictException", "Message": "busy"}}, "GetItem")
        return {"Item": {}}


def client_of(server: Conflicting, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client that has no other server."""
    client = Client()
    monkeypatch.setattr(client, "_boto", SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(client, "_wire", server)
    return client


@pytest.mark.parametrize("times", [0, 1, 3])
async def test_a_conflict_is_tried_again(times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    server = Conflicting(times)
    client = client_of(server, monkeypatch)

    answer = await client.call("get_item")

    assert answer == {"Item": {}}
    assert server.calls == times + 1


async def test_conflicts_without_end_are_told_after_the_last_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Conflicting(10 * CONFLICT_ATTEMPTS)
    client = client_of(server, monkeypatch)

    with pytest.raises(StoreUnavailable, match="another transaction"):
        await client.call("get_item")

    assert server.calls == CONFLICT_ATTEMPTS
