"""A list is read record by record as it arrives, and comes out as if it had been read at once, in little memory."""

import io
import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from clusterra_proxy.slurmrestd import body_reader
from clusterra_proxy.slurmrestd.answers import Jobs, Nodes
from clusterra_proxy.slurmrestd.known_records import KnownRecords
from clusterra_proxy.slurmrestd.reading.record_stream import RecordStream
from hypothesis import given
from hypothesis import strategies as st
from test_known_records import answers, bodies_of


def streamed(body: bytes, size: int) -> tuple[list[Any], bytes]:
    stream = RecordStream("nodes")
    records = [record for begin in range(0, len(body), size) for record in stream.feed(body[begin : begin + size])]
    last, rest = stream.finish()
    return records + last, rest


@given(answers, st.integers(1, 300))
def test_any_chunks_give_all_records_and_the_rest(answer: dict[str, Any], size: int) -> None:
    for body in bodies_of(answer):
        records, rest = streamed(body, size)

        whole = json.loads(rest)
        assert records + whole["nodes"] == json.loads(body)["nodes"]
        assert {**whole, "nodes": []} == {**json.loads(body), "nodes": []}


@given(answers)
def test_the_subprocess_writes_what_the_ordinary_reader_reads(answer: dict[str, Any]) -> None:
    for body in bodies_of(answer):
        written = io.BytesIO()
        body_reader.copy(Nodes, io.BytesIO(body), written)

        read = KnownRecords[Nodes]().read_lines(Nodes, written.getvalue().split(b"\n"))

        expected = body_reader.read(Nodes, body)
        assert read.nodes == expected.nodes
        assert sorted(read.unreadable, key=repr) == sorted(expected.unreadable, key=repr)
        assert (read.errors, read.last_update) == (expected.errors, expected.last_update)


@pytest.mark.parametrize("end", [b"", b"]", b'{"name": "n3"', b"x]}"])
def test_a_list_that_does_not_end_is_refused(end: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        streamed(b'{"nodes": [{"name": "n1"}, {"name": "n2"}, ' + end, 7)


class LongList(io.RawIOBase):
    """A list of jobs with megabytes, made while it is read."""

    def __init__(self, jobs: int) -> None:
        self._parts = self._write(jobs)
        self.size = 0

    def _write(self, jobs: int) -> Iterator[bytes]:
        yield b'{"jobs": ['
        for number in range(1, jobs + 1):
            job = {"job_id": number, "job_state": ["RUNNING"], "ignored": ["x" * 10] * 800}
            yield (b"," if number > 1 else b"") + json.dumps(job).encode()
        yield b'], "errors": []}'

    def read(self, _size: int | None = -1) -> bytes:
        part = next(self._parts, b"")
        self.size += len(part)
        return part


def test_a_long_list_takes_little_memory() -> None:
    source, target = LongList(1000), io.BytesIO()
    tracemalloc.start()
    try:
        body_reader.copy(Jobs, source, target)  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert target.getvalue().count(b"\n") == 1000
    assert source.size > 10_000_000
    assert peak < 2_000_000
