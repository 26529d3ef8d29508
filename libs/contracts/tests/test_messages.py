"""Every message has a golden file that still parses, and the message table, the models and the document agree."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest
from cloudevents.core.formats.json import JSONFormat
from clusterra_contracts.bus import asyncapi
from clusterra_contracts.bus.envelope import (
    COMPRESS_FROM_BYTES,
    CONTENT_ENCODING,
    GZIP,
    MESSAGE_ID,
    SCHEMA,
    InvalidMessage,
    decode,
    encode,
)
from clusterra_contracts.bus.messages import PUBLICATIONS, REQUESTS
from clusterra_contracts.events import _FACTS, KINDS, Fact, NewerFact
from clusterra_contracts.heartbeat import Heartbeat
from clusterra_contracts.identity import Wire
from clusterra_contracts.queue import QueueSnapshot
from clusterra_contracts.rpc.reply import Reply, RpcError
from clusterra_contracts.rpc.slurm import JobDescription, Submitted
from message_examples import EVENT, EXAMPLES
from pydantic import ValidationError

GOLDEN = Path(__file__).parent / "golden"
DOCUMENT = Path(__file__).parents[3] / "docs" / "asyncapi.json"
MODELS: dict[str, type[Wire]] = {name: type(example) for name, example in EXAMPLES.items()}


def every_message() -> set[type[Wire]]:
    published = {publication.message for publication in PUBLICATIONS}
    return published | {part for request in REQUESTS for part in (request.request, request.result)}


def test_every_message_has_an_example() -> None:
    assert every_message() == set(MODELS.values())


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_golden_file_is_what_is_sent_today(name: str) -> None:
    """A changed message needs a new version and a new golden file; the old file stays and must still parse."""
    example = EXAMPLES[name]
    assert getattr(example, "schema_name", None) == name
    assert json.loads((GOLDEN / f"{name}.json").read_text()) == json.loads(example.model_dump_json())


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.json")), ids=lambda file: file.stem)
def test_every_golden_file_ever_made_parses_without_loss(file: Path) -> None:
    model = MODELS[next(name for name in MODELS if name.rpartition(".")[0] == file.stem.rpartition(".")[0])]

    read = decode(model, file.read_bytes())

    assert not lost_paths(json.loads(file.read_text()), json.loads(read.model_dump_json()))


def lost_paths(old: Any, new: Any, path: str = "") -> list[str]:
    """The paths of values in `old` that `new` lacks; `new` may have additional fields."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [lost for key in old for lost in lost_paths(old[key], new.get(key), f"{path}.{key}")]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        return [lost for index, pair in pairs for lost in lost_paths(*pair, f"{path}[{index}]")]
    return [] if old == new else [path]


def test_every_golden_file_has_a_message() -> None:
    stems = {file.stem.rpartition(".")[0] for file in GOLDEN.glob("*.json")}
    assert stems == {name.rpartition(".")[0] for name in EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_unknown_fields_of_newer_senders_are_ignored(name: str) -> None:
    body = {**json.loads(EXAMPLES[name].model_dump_json()), "from_the_future": 1}
    assert decode(MODELS[name], json.dumps(body).encode()) == EXAMPLES[name]


def test_the_checked_in_document_is_up_to_date() -> None:
    generated = json.loads(json.dumps(asyncapi.document()))
    assert json.loads(DOCUMENT.read_text()) == generated, "run `make docs` and read the difference"


def test_every_reference_in_the_document_resolves() -> None:
    document = asyncapi.document()

    def references(node: Any) -> list[str]:
        if isinstance(node, dict):
            own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
            return own + [found for value in node.values() for found in references(value)]
        if isinstance(node, list):
            return [found for value in node for found in references(value)]
        return []

    found = references(document)

    assert found

    for reference in found:
        target: Any = document
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]


def test_events_are_cloudevents() -> None:
    event = JSONFormat().read(None, EVENT.model_dump_json())
    assert event.get_specversion() == "1.0"
    assert event.get_id() == "acme.c1:42_7:1772366400.0:job.running"
    assert event.get_type() == "cloud.clusterra.job.running"
    assert event.get_subject() == "42_7"


def test_every_model_of_a_fact_has_kinds_and_is_in_the_union() -> None:
    tagged = {get_args(member)[0] for member in get_args(get_args(Fact)[0])}
    assert tagged == {*_FACTS, NewerFact}
    assert len(KINDS) == len(set(KINDS))


def test_headers_describe_the_message() -> None:
    heartbeat = EXAMPLES["heartbeat.v6"]

    assert isinstance(heartbeat, Heartbeat)

    body, headers = encode(heartbeat, message_id="hb-1")

    assert headers[SCHEMA] == "heartbeat.v6"
    assert headers[MESSAGE_ID] == "hb-1"
    assert CONTENT_ENCODING not in headers
    assert decode(Heartbeat, body, headers) == heartbeat


def large_snapshot() -> QueueSnapshot:
    example = EXAMPLES["job.pending.v7"]
    assert isinstance(example, QueueSnapshot)
    assert example.pending
    rng = random.Random(1)
    groups = tuple(
        example.pending[0].model_copy(update={"cpus": n + 1, "job_ids": (str(rng.randrange(1, 10**9)),)})
        for n in range(5000)
    )
    return example.model_copy(update={"pending": groups})


@cache
def encoded_snapshot() -> tuple[bytes, dict[str, str]]:
    return encode(large_snapshot())


def test_a_large_snapshot_is_compressed_below_the_payload_limit() -> None:
    snapshot = large_snapshot()

    body, headers = encode(snapshot)

    assert len(snapshot.model_dump_json()) > COMPRESS_FROM_BYTES
    assert headers[CONTENT_ENCODING] == GZIP
    assert len(body) < 1024 * 1024
    assert decode(QueueSnapshot, body, headers) == snapshot


@pytest.mark.parametrize("size", [0, 5, 100, -1])
def test_a_truncated_gzip_body_is_an_invalid_message(size: int) -> None:
    body, headers = encoded_snapshot()
    with pytest.raises(InvalidMessage):
        decode(QueueSnapshot, body[:size], headers)


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"{}", b"\xff\xfe", b'{"generation": "many"}'])
def test_garbage_is_an_invalid_message_whose_error_contains_no_value(body: bytes) -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode(QueueSnapshot, body)
    assert "many" not in str(caught.value)


def test_a_reply_holds_either_a_result_or_an_error() -> None:
    submitted = EXAMPLES["slurm.submitted.v1"]

    assert isinstance(submitted, Submitted)

    error = RpcError(kind="not_found", detail="no job 42")

    with pytest.raises(ValidationError):
        Reply[Submitted](result=submitted, error=error)
    with pytest.raises(ValidationError):
        Reply[Submitted]()
    assert Reply[Submitted](error=error).error == error


@pytest.mark.parametrize("field", ["user_id", "group_id", "comment", "admin_comment", "script"])
def test_a_job_description_rejects_fields_that_a_caller_must_not_set(field: str) -> None:
    with pytest.raises(ValidationError, match=field):
        JobDescription.model_validate({"environment": ["PATH=/bin"], field: "x"})


def test_a_job_description_accepts_plain_numbers_and_those_of_slurm() -> None:
    description = JobDescription.model_validate(
        {
            "environment": ["PATH=/bin"],
            "tasks": 4,
            "memory_per_cpu": {"set": True, "infinite": False, "number": 2048},
            "time_limit": {"set": False, "infinite": False, "number": 0},
        }
    )

    assert (description.tasks, description.memory_per_cpu, description.time_limit) == (4, 2048, None)
