"""The spool's folder: what is kept, whose it is, and what a file that somebody changed does."""

import errno
import json
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from clusterra.credentials import FixedToken
from clusterra.errors import ClusterraError, SignInNeeded, Unreachable
from clusterra.exchange import Answer, Failure, Request, Steps
from clusterra.target import Target
from clusterra_cli.spool import folder as folder_module
from clusterra_cli.spool.delivery import KEY_SECONDS, MAX_AGE_SECONDS, Delivery, Outcome
from clusterra_cli.spool.folder import Entry, Spool, SpoolError
from clusterra_cli.spool.record import BadRecord, SpooledSubmit, read, written
from clusterra_cli.spool.submits import deliver_beside, keep
from hypothesis import given
from hypothesis import strategies as st

SECRET = b"s" * 32
URL = "https://clusterra.example"
SUBMIT = SpooledSubmit("a" * 32, URL, {"script": "#!/bin/sh\n", "job": {}}, 1000.0, "mark", cluster="main")
TARGET = Target(URL, "main", FixedToken("token-1"))


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "conf" / "spool")


def files(spool: Spool, state: str) -> list[str]:
    return sorted(each.name for each in (spool.root / state).iterdir())


def place(spool: Spool, entry: Entry) -> Path:
    return spool.root / entry.state / entry.file_name


def test_a_submit_is_private_and_has_no_token(spool: Spool) -> None:
    entry = keep(spool, TARGET, {"script": "#!/bin/sh\n", "job": {"name": "x"}})

    content = place(spool, entry).read_bytes()
    assert b"token-1" not in content
    assert place(spool, entry).stat().st_mode & 0o777 == 0o600
    assert {each.stat().st_mode & 0o777 for each in (spool.root, *spool.root.iterdir()) if each.is_dir()} == {0o700}
    assert spool.read(entry).body == {"script": "#!/bin/sh\n", "job": {"name": "x"}}


def test_submits_have_numbers_in_their_order_also_after_they_were_sent(spool: Spool) -> None:
    first, second = (keep(spool, TARGET, {}) for _ in range(2))
    spool.sent(first, spool.read(first), "7")
    spool.drop(second)
    third = keep(spool, TARGET, {})

    assert [each.id for each in (first, second, third)] == ["s1", "s2", "s2"]
    assert [each.id for each in spool.entries("waiting", "sent")] == ["s1", "s2"]


@given(st.binary(max_size=400))
def test_bytes_of_others_are_no_record(content: bytes) -> None:
    with pytest.raises(BadRecord):
        read(content, SECRET)


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_a_record_of_which_one_byte_is_changed_is_none(at: int, byte: int) -> None:
    content = bytearray(written(SUBMIT, SECRET))
    before = content[at % len(content)]
    content[at % len(content)] = byte

    if byte == before:
        assert read(bytes(content), SECRET) == SUBMIT
        return
    # A byte between the parts, such as a blank for another one, changes nothing.
    with suppress(BadRecord):
        assert read(bytes(content), SECRET) == SUBMIT


def test_a_record_of_another_spool_is_none() -> None:
    with pytest.raises(BadRecord):
        read(written(SUBMIT, b"o" * 32), SECRET)


def test_a_folder_that_others_can_write_is_not_used(spool: Spool) -> None:
    keep(spool, TARGET, {})
    (spool.root / "waiting").chmod(0o777)

    with pytest.raises(SpoolError, match="others own, can read or can write"):
        spool.entries("waiting")


def test_the_spool_has_a_bound(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "MAX_SUBMITS", 2)
    for _ in range(2):
        keep(spool, TARGET, {})

    with pytest.raises(SpoolError, match="is full"):
        keep(spool, TARGET, {})


class Gateway:
    """The answers of a gateway to a delivery, and the keys that it was sent."""

    def __init__(self, *answers: Answer | Failure, member: str = "ada", clusters: tuple[str, ...] = ("main",)) -> None:
        self.answers = list(answers)
        self.member = member
        self.clusters = clusters
        self.keys: list[str | None] = []
        self.paths: list[str] = []

    def run(self, steps: Steps[Any]) -> Any:
        reply: Any = None
        try:
            while True:
                step = steps.send(reply)
                reply = self._reply(step) if isinstance(step, Request) else 0.0
        except StopIteration as stop:
            return stop.value

    def _reply(self, request: Request) -> Answer | Failure:
        if request.path == "/v1/users/me":
            return Answer(200, {}, f'{{"id": "{self.member}"}}'.encode())
        if request.path == "/v1/clusters":
            return Answer(200, {}, json.dumps({"clusters": [{"id": each} for each in self.clusters]}).encode())
        self.keys.append(request.idempotency_key)
        self.paths.append(request.path)
        return self.answers.pop(0)


def made(job_id: str) -> Answer:
    return Answer(201, {"content-type": "application/json"}, f'{{"job_id": "{job_id}"}}'.encode())


def problem(status: int, name: str) -> Answer:
    body = f'{{"type": "/v1/problems/{name}", "detail": "no"}}'.encode()
    return Answer(status, {"content-type": "application/problem+json"}, body)


def deliver(
    spool: Spool, gateway: Gateway, target: Target = TARGET, at: float | None = None, **more: Any
) -> list[Outcome]:
    clock = {} if at is None else {"clock": lambda: at}
    return list(Delivery(spool, target, gateway, **clock).run(**more))  # type: ignore[arg-type]


def test_what_has_no_answer_is_sent_again_with_its_key(spool: Spool) -> None:
    entry = keep(spool, TARGET, {})
    gateway = Gateway(Failure("cut off"), problem(409, "in-flight"), problem(504, "outcome-unknown"), made("7"))

    with pytest.raises(Unreachable):
        deliver(spool, gateway)
    kinds = [deliver(spool, gateway)[0].kind for _ in range(3)]

    assert kinds == ["waits", "waits", "sent"]
    assert gateway.keys == [entry.key] * 4
    assert spool.entries("waiting") == []


def test_a_refused_submit_does_not_hold_up_the_others(spool: Spool) -> None:
    for _ in range(2):
        keep(spool, TARGET, {})

    outcomes = deliver(spool, Gateway(problem(422, "rejected"), made("8")))

    assert [each.kind for each in outcomes] == ["refused", "sent"]
    assert [each.id for each in spool.entries("refused")] == ["s1"]


def test_a_bad_file_is_set_aside_and_the_rest_is_sent(spool: Spool) -> None:
    bad, linked, _ = (keep(spool, TARGET, {}) for _ in range(3))
    place(spool, bad).write_bytes(b"{}")
    target = spool.root.parent / "elsewhere"
    target.write_bytes(place(spool, linked).read_bytes())
    place(spool, linked).unlink()
    place(spool, linked).symlink_to(target)

    outcomes = deliver(spool, Gateway(made("9")))

    assert [each.kind for each in outcomes] == ["bad", "bad", "sent"]
    assert len(files(spool, "bad")) == 2
    assert target.exists()


def test_what_cannot_be_read_now_waits(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    unread, _ = (keep(spool, TARGET, {}) for _ in range(2))
    opened = os.open

    def fail(path: Path, *arguments: Any) -> int:
        if path == place(spool, unread):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return opened(path, *arguments)

    monkeypatch.setattr(os, "open", fail)
    outcomes = deliver(spool, Gateway(made("7")))
    monkeypatch.undo()

    assert [each.kind for each in outcomes] == ["waits", "sent"]
    assert [each.kind for each in deliver(spool, Gateway(made("8")))] == ["sent"]


def test_a_submit_goes_to_the_cluster_it_was_spooled_for_or_to_the_only_one(spool: Spool) -> None:
    keep(spool, replace(TARGET, cluster=None), {})
    gateway = Gateway(made("7"), clusters=("main",))

    deliver(spool, gateway, replace(TARGET, cluster="other"))

    assert gateway.paths == ["/v1/clusters/main/jobs/submit"]


def test_without_a_cluster_of_its_own_a_submit_is_no_guess(spool: Spool) -> None:
    keep(spool, replace(TARGET, cluster=None), {})

    (outcome,) = deliver(spool, Gateway(clusters=("main", "other")), replace(TARGET, cluster="other"))

    assert outcome.kind == "refused"


def test_a_lock_that_cannot_be_opened_stops_no_submit_without_the_spool(spool: Spool) -> None:
    keep(spool, TARGET, {})
    (spool.root / "send.lock").symlink_to("/nowhere")

    assert deliver_beside(spool, TARGET, Gateway()) == ()  # type: ignore[arg-type]


def test_a_submit_that_could_not_be_kept_is_not_delivered_later(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.make()
    synced: list[int] = []

    def fail(descriptor: int) -> None:
        synced.append(descriptor)
        # The second one is that of the folder, once the file has its name; the key of the MACs has one before.
        if len(synced) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(SpoolError, match="No space left"):
        keep(spool, TARGET, {})

    assert spool.entries("waiting") == []


def test_the_token_of_another_person_sends_nothing(spool: Spool) -> None:
    keep(spool, TARGET, {})
    other = replace(TARGET, credentials=FixedToken("token-2"))
    gateway = Gateway(made("7"), member="bob")

    assert [each.kind for each in deliver(spool, gateway, other)] == ["waits"]
    assert gateway.keys == []
    assert [each.kind for each in deliver(spool, gateway, other, mine=True)] == ["sent"]


def test_who_began_to_send_is_whose_it_is(spool: Spool) -> None:
    keep(spool, TARGET, {})
    with pytest.raises(Unreachable):
        deliver(spool, Gateway(Failure("cut off"), member="ada"))
    renewed = replace(TARGET, credentials=FixedToken("token-2"))

    assert deliver(spool, Gateway(member="bob"), renewed, mine=True)[0].why == "it belongs to another person"
    assert [each.kind for each in deliver(spool, Gateway(made("7")), renewed)] == ["sent"]


def test_another_gateway_gets_nothing(spool: Spool) -> None:
    keep(spool, TARGET, {})

    (outcome,) = deliver(spool, Gateway(), replace(TARGET, url="https://other.example"))

    assert (outcome.kind, outcome.why) == ("waits", f"it is for the gateway {URL}")


def test_a_key_that_the_gateway_may_have_forgotten_is_not_used_again(spool: Spool) -> None:
    keep(spool, TARGET, {})
    with pytest.raises(Unreachable):
        deliver(spool, Gateway(Failure("cut off")), at=2_000_000.0)
    gateway = Gateway(made("7"))

    (outcome,) = deliver(spool, gateway, at=2_000_000.0 + KEY_SECONDS)

    assert outcome.kind == "refused"
    assert "may have made its job" in (outcome.why or "")
    assert gateway.keys == []


def test_a_clock_that_was_set_back_is_no_reason_to_send_again(spool: Spool) -> None:
    keep(spool, TARGET, {})
    with pytest.raises(Unreachable):
        deliver(spool, Gateway(Failure("cut off")), at=2_000_000.0)

    assert [each.kind for each in deliver(spool, Gateway(made("7")), at=1_000_000.0)] == ["refused"]


def test_what_was_never_sent_waits_for_a_month(spool: Spool) -> None:
    entry = keep(spool, TARGET, {})
    spooled_at = spool.read(entry).spooled_at

    assert [each.kind for each in deliver(spool, Gateway(), at=spooled_at + MAX_AGE_SECONDS + 1)] == ["refused"]


def test_an_ended_sign_in_leaves_everything(spool: Spool) -> None:
    keep(spool, TARGET, {})

    with pytest.raises(SignInNeeded):
        deliver(spool, Gateway(problem(401, "unauthenticated")))
    assert [each.id for each in spool.entries("waiting")] == ["s1"]


def test_one_process_sends_at_a_time(spool: Spool) -> None:
    spool.make()
    with (
        spool.locked("send"),
        pytest.raises(ClusterraError, match="another process"),
        spool.locked("send", seconds=0.1),
    ):
        pass
    assert files(spool, "waiting") == []
