"""Only changed records are parsed, and what is read is what the ordinary reader reads, whatever the bytes are."""

import json
from typing import Any

import orjson
import pytest
from clusterra_proxy.slurmrestd import body_reader, known_records
from clusterra_proxy.slurmrestd.answers import Nodes, States
from clusterra_proxy.slurmrestd.known_records import KnownRecords
from clusterra_proxy.slurmrestd.reading.json_content import content_of
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(st.sampled_from('a"{}[],:\\ \n\u00e9\U0001f600'), max_size=12)
nodes = st.fixed_dictionaries(
    {"name": st.one_of(st.sampled_from(["n1", "n2"]), texts)},
    optional={
        "reason": st.one_of(texts, st.just('},{"name": "n9"')),
        "cpus": st.sampled_from([1, 2, "many"]),
        "features": st.lists(texts, max_size=2),
        "nested": st.just([{"name": "inner"}]),
    },
)
answers = st.fixed_dictionaries(
    {"nodes": st.lists(nodes, max_size=4), "last_update": st.just({"set": True, "infinite": False, "number": 7})},
    optional={
        "errors": st.just([{"description": "nodes", "error_number": 1}]),
        "meta": st.just({"x": [{"name": "m"}]}),
    },
)


def bodies_of(answer: dict[str, Any]) -> list[bytes]:
    return [json.dumps(answer, indent=indent).encode() for indent in (None, 2)] + [orjson.dumps(answer)]


@given(st.lists(answers, min_size=1, max_size=4))
def test_it_reads_what_the_ordinary_reader_reads(consecutive: list[dict[str, Any]]) -> None:
    known = KnownRecords[Nodes]()
    for answer in consecutive:
        for body in bodies_of(answer):
            read = known.read(Nodes, body)
            again = known.read(Nodes, body)

            expected = body_reader.read(Nodes, body)
            assert read is None or read == expected
            assert again is read


def states(*rows: tuple[str, str]) -> bytes:
    jobs = [{"job_id": number, "state": [state]} for number, state in rows]
    return json.dumps({"errors": [], "jobs": jobs, "last_update": 1}, indent=2).encode()


def test_only_changed_records_are_parsed_and_the_others_stay_the_same_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownRecords[States]()
    before = known.read(States, states(("1", "PENDING"), ("2", "RUNNING"), ("3", "RUNNING")))
    parsed: list[bytes] = []
    parse = content_of

    def counted(body: bytes) -> Any:
        parsed.append(body)
        return parse(body)

    monkeypatch.setattr(known_records, "content_of", counted)
    same = known.read(States, states(("1", "PENDING"), ("2", "RUNNING"), ("3", "RUNNING")).replace(b": 1", b": 2"))
    after = known.read(States, states(("2", "RUNNING"), ("3", "COMPLETED"), ("4", "PENDING")))

    assert before is not None
    assert same is not None
    assert after is not None
    assert same.jobs is before.jobs
    assert [(row.job_id, row.state[0]) for row in after.jobs] == [
        ("2", "RUNNING"),
        ("3", "COMPLETED"),
        ("4", "PENDING"),
    ]
    assert after.jobs[0] is before.jobs[1]
    # Twice the answer around the records, and two records.
    assert len(parsed) == 4


def test_a_body_that_cannot_be_cut_is_left_to_the_ordinary_reader() -> None:
    known = KnownRecords[States]()
    for body in (b"", b"<html>", b'{"jobs": []}', b'{"jobs": null}', b'{"jobs": [{"job_id": ', b'{"jobs": 7}'):
        assert known.read(States, body) is None


def test_a_record_that_cannot_be_read_is_one_record() -> None:
    body = (
        b'{"nodes": [{"name": "n1", "reason": "caf\xe9"}, {"name": "n2", "cpus": "many"}, {"name": 7}], "errors": []}'
    )
    answer = KnownRecords[Nodes]().read(Nodes, body)

    assert answer is not None
    assert [(node.name, node.unreadable) for node in answer.nodes] == [("n1", ()), ("n2", ("cpus",))]
    assert answer.nodes[0].reason == "caf\ufffd"
    assert [each.id for each in answer.unreadable] == ["n2", ""]
