"""The spool of the job hook, without Slurm: what is written, bounded, sent, refused and kept."""

import asyncio
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from clusterra_contracts.hook_http import JobHookEvent
from clusterra_lab.machine.process import until
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HOOK = Path(__file__).parents[1] / "hooks" / "clusterra-job-hook"
KEY = "clusterra_agent_only-in-a-file"
ENDED = {
    b"JOBID": b"42",
    b"JOBSTATE": b"COMPLETED",
    b"UID": b"20001",
    b"USERNAME": b"ada",
    b"PARTITION": b"main",
    b"SUBMIT": b"1772366400",
    b"START": b"1772366405",
    b"END": b"1772366580",
    b"NODES": b"n1",
    b"EXITCODE": b"3:0",
}


@dataclass
class Receiver:
    """Stands for the gateway: it answers with the statuses in order, and then with the last."""

    statuses: list[int] = field(default_factory=lambda: [200])
    received: list[dict[str, Any]] = field(default_factory=list)
    keys: set[str | None] = field(default_factory=set)
    seen: list[bytes] = field(default_factory=list)
    """The command lines and environments of all processes, at each request."""
    port: int = 0

    def answer(self, content: bytes, key: str | None) -> int:
        self.keys.add(key)
        for each in Path("/proc").glob("[0-9]*"):
            for name in ("cmdline", "environ"):
                try:
                    self.seen.append((each / name).read_bytes())
                except OSError:
                    continue
        self.received.append(json.loads(content))
        return self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]


@dataclass
class Spool:
    """A hook with its configuration."""

    folder: Path
    receiver: Receiver

    @property
    def environment(self) -> dict[bytes, bytes]:
        return {b"CLUSTERRA_JOB_HOOK_CONF": bytes(self.folder / "conf")}

    def new(self) -> list[Path]:
        return sorted((self.folder / "spool" / "new").glob("*.json"))

    def rejected(self) -> list[str]:
        return sorted(each.suffix for each in (self.folder / "spool" / "rejected").iterdir())

    def send(self) -> int:
        return subprocess.run([HOOK, "send"], env=self.environment, timeout=240, check=False).returncode

    def tell(self, **changed: bytes) -> None:
        """Spool the end of a job in the foreground, and send."""
        given = ENDED | {name.encode(): value for name, value in changed.items()} | self.environment
        given[b"UID_OF_JOB"] = given.pop(b"UID")
        subprocess.run([HOOK, "tell-end"], env=given, timeout=240, check=False)

    def detail(self) -> Any:
        """The detail of the one event in the spool, which leaves it."""
        (file,) = self.new()
        event = JobHookEvent.model_validate_json(file.read_bytes())
        file.unlink()
        return event.detail


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(receiver.answer(content, self.headers["X-Agent-Key"]))
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"words")

        def log_message(self, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        receiver.port = server.server_port
        (tmp_path / "key").write_text(f'header = "X-Agent-Key: {KEY}"\n')
        (tmp_path / "conf").write_text(
            f"url=http://127.0.0.1:{server.server_port}\ntenant=acme\ncluster=main\n"
            f"key_file={tmp_path}/key\nspool={tmp_path}/spool\n"
        )
        yield Spool(tmp_path, receiver)
        server.shutdown()
        thread.join()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.binary(max_size=300).map(lambda name: name.replace(b"\0", b""))
    | st.text(max_size=80).map(lambda name: name.replace("\0", "").encode(errors="surrogatepass"))
)
def test_any_name_of_a_job_is_valid_json(spool: Spool, name: bytes) -> None:
    spool.receiver.statuses = [503]
    spool.tell(JOBNAME=name)
    detail = spool.detail()

    shown = detail.name
    valid = name[:250].decode(errors="replace")
    assert shown.replace("\ufffd", "") == valid.replace("\ufffd", "")
    assert (detail.job_id, detail.uid, detail.exit_code, detail.nodes) == ("42", 20001, 3, ("n1",))


def test_what_is_accepted_leaves_the_spool_and_the_key_is_in_no_process(spool: Spool) -> None:
    spool.tell(JOBNAME=b"align")

    assert spool.new() == []
    assert [each["detail"]["job_id"] for each in spool.receiver.received] == ["42"]
    assert spool.receiver.keys == {KEY}
    assert any(b"job-hook" in each for each in spool.receiver.seen)
    assert not any(KEY.encode() in each for each in spool.receiver.seen)


def test_what_fails_stays_in_order_and_what_is_refused_is_put_aside(spool: Spool) -> None:
    spool.receiver.statuses = [503]
    for number in range(1, 6):
        spool.tell(JOBID=str(number).encode())
    assert len(spool.new()) == 5
    spool.receiver.received.clear()
    spool.receiver.statuses = [200, 400, 401]

    assert spool.send() != 0

    assert [each["detail"]["job_id"] for each in spool.receiver.received] == ["1", "2", "3"]
    assert spool.rejected() == [".json", ".reason"]
    spool.receiver.received.clear()
    spool.receiver.statuses = [429, 200]
    assert spool.send() == 0
    assert [each["detail"]["job_id"] for each in spool.receiver.received] == ["3", "3", "4", "5"]
    assert spool.new() == []


@pytest.mark.parametrize(
    ("state", "status", "expected"),
    [
        ("COMPLETED", b"0:0", 0),
        ("FAILED", b"3:0", 3),
        ("FAILED", b"0:9", None),
        ("CANCELLED", b"0:0", None),
        ("FAILED", b"no code", None),
    ],
)
def test_an_exit_code_is_that_of_the_script_and_no_signal(
    spool: Spool, state: str, status: bytes, expected: int | None
) -> None:
    spool.receiver.statuses = [503]
    spool.tell(JOBSTATE=state.encode(), EXITCODE=status)
    assert spool.detail().exit_code == expected


def test_the_run_that_ended_has_its_own_number_of_restarts(spool: Spool) -> None:
    spool.receiver.statuses = [503]
    spool.tell()
    assert spool.detail().restarts == 0, "no job has a note that was never restarted"
    runs = spool.folder / "spool" / "runs"
    (runs / "42").write_text("1")
    (runs / "42-1772366500").write_text("1")

    spool.tell(SUBMIT=b"1772366500")
    assert spool.detail().restarts == 1
    spool.tell()
    assert spool.detail().restarts == 0, "the end of the first run, told late"


@pytest.mark.parametrize("configuration", ["whole", "missing"])
def test_a_start_never_fails(spool: Spool, configuration: str) -> None:
    environment = spool.environment | {
        b"SLURM_SCRIPT_CONTEXT": b"prolog_slurmctld",
        b"SLURM_JOB_ID": b"42",
        b"SLURM_JOB_RESTART_COUNT": b"2",
    }
    if configuration == "missing":
        environment[b"CLUSTERRA_JOB_HOOK_CONF"] = b"/none"

    done = subprocess.run([HOOK], env=environment, timeout=60, check=False, capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    note = spool.folder / "spool" / "runs" / "42"
    assert (note.read_text() if note.exists() else None) == ("2" if configuration == "whole" else None)


def test_a_full_spool_leaves_out_events_and_no_job(spool: Spool) -> None:
    spool.receiver.statuses = [503]
    spool.tell()
    new = spool.folder / "spool" / "new"
    for number in range(20_000):
        (new / f"1-{number}.json").touch()

    spool.tell(JOBID=b"43")

    assert not any(b'"43"' in each.read_bytes() for each in new.glob("17*.json"))
    assert "the spool is full" in (spool.folder / "spool" / "left-out").read_text()
    assert (new.stat().st_mode & 0o777) == 0o700


@pytest.mark.parametrize("broken", ["no configuration", "no folder", "nothing of Slurm"])
def test_the_hook_succeeds_whatever_is_wrong(spool: Spool, broken: str) -> None:
    environment = ENDED | spool.environment
    if broken == "no configuration":
        environment[b"CLUSTERRA_JOB_HOOK_CONF"] = b"/none"
    elif broken == "no folder":
        (spool.folder / "spool").write_text("a file")
    else:
        environment = spool.environment

    done = subprocess.run([HOOK], env=environment, timeout=60, check=False, capture_output=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


async def test_the_uid_of_the_job_is_told_and_not_the_one_that_bash_has(spool: Spool) -> None:
    environment = ENDED | spool.environment
    await asyncio.to_thread(subprocess.run, [HOOK], env=environment, timeout=60, check=True)

    await until(lambda: spool.receiver.received != [], seconds=240, what="the event")
    assert spool.receiver.received[0]["detail"]["uid"] == 20001 != os.getuid()
