"""What callers read of a wrong body: sentences of ours, places that they wrote, the nearest name."""

import json
import re
from functools import cache
from typing import Any
from urllib.parse import unquote

import pytest
from clusterra_contracts.wrong_values import SENTENCES, sentence, summary
from clusterra_gateway.http.requests.errors import InvalidRequest
from clusterra_gateway.http.requests.parameters import checked, parsed
from clusterra_gateway.jobs.changes import _HINTS as CHANGE_HINTS
from clusterra_gateway.jobs.changes import RequestedChanges
from clusterra_gateway.submission.models import AnySubmission, Submission, TemplateSubmission
from clusterra_gateway.submission.reading import HINTS, STEP_HINTS
from clusterra_gateway.workflows.models import RunRequest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError, field_validator
from pydantic_core import PydanticKnownError
from pydantic_core._pydantic_core import list_all_errors
from route_table import route_table

KNOWN_ERRORS = list_all_errors()


def phrases() -> list[str]:
    """What stands in pydantic's texts, whatever their values."""
    texts = [each["message_template_python"] for each in KNOWN_ERRORS]
    texts += [each["message_template_json"] for each in KNOWN_ERRORS if "message_template_json" in each]
    longest = {max(re.split(r"\{[a-z_]+\}", text), key=len).strip() for text in texts}
    return sorted(each for each in longest if len(each) >= 10)


PHRASES = phrases()


@cache
def body_models() -> list[type[BaseModel]]:
    return sorted({route.body for route in route_table() if route.body is not None}, key=lambda model: model.__name__)


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, -1, 1.5, 2**70, "", "1h", "x", "\x00", "2026-13-01", "é" * 3000, [], [[]], ["a"], {}, {"x": {}}]
)


def content(schema: dict[str, Any], definitions: dict[str, Any], depth: int = 0) -> st.SearchStrategy[Any]:
    """JSON that is like what a schema asks for, and often wrong."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    if depth > 4:
        return JUNK
    if choices := schema.get("anyOf", schema.get("oneOf")):
        return st.one_of(JUNK, *(content(each, definitions, depth + 1) for each in choices[:4]))
    if properties := schema.get("properties"):
        names = st.lists(st.sampled_from([*properties, "unknown", "nam"]), unique=True, max_size=6)
        return names.flatmap(
            lambda some: st.fixed_dictionaries(
                {name: content(properties.get(name, {}), definitions, depth + 1) for name in some}
            )
        )
    if isinstance(items := schema.get("items"), dict):
        return st.one_of(JUNK, st.lists(content(items, definitions, depth + 1), max_size=3))
    return st.one_of(JUNK, st.sampled_from([*schema.get("enum", ["a"]), 7, "main"]))


@cache
def bodies(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    schema = model.model_json_schema()
    return content(schema, schema.get("$defs", {}))


def told(error: InvalidRequest) -> str:
    return " ".join([error.detail, error.hint, *(each.detail for each in error.errors)])


@given(st.data())
def test_whatever_is_sent_the_answer_has_no_text_of_a_library(data: st.DataObject) -> None:
    model = data.draw(st.sampled_from(body_models()))
    sent = json.dumps(data.draw(bodies(model)))

    error = refusal(model, sent)

    assert [phrase for phrase in PHRASES if phrase in told(error)] == []
    assert [each for each in error.errors if not leads_to_something(each.place, json.loads(sent))] == []


@pytest.mark.parametrize("sent", ["null", "[]", "7"])
def test_a_body_that_is_no_object_is_wrong_as_a_whole(sent: str) -> None:
    error = refusal(AnySubmission, sent)

    assert [(each.place, each.detail) for each in error.errors] == [("#", "must be an object")]


def refusal(model: type[BaseModel], sent: str) -> InvalidRequest:
    """Why a body is refused; nothing where it is right."""
    try:
        parsed(sent.encode(), model)
    except InvalidRequest as error:
        return error
    return InvalidRequest("")


def leads_to_something(pointer: str, sent: Any) -> bool:
    """Whether a pointer leads to a value that was sent, or to a field that an object lacks."""
    parts = [unquote(part).replace("~1", "/").replace("~0", "~") for part in pointer.removeprefix("#").split("/")[1:]]
    for number, part in enumerate(parts, start=1):
        if isinstance(sent, dict) and (part in sent or number == len(parts)):
            sent = sent.get(part)
        elif isinstance(sent, list) and part.isdecimal() and int(part) < len(sent):
            sent = sent[int(part)]
        else:
            return False
    return True


@given(st.text(max_size=20))
def test_text_that_is_no_json_is_refused_in_words_of_ours(text: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parsed(f"{{{text}".encode(), RunRequest)

    assert [phrase for phrase in PHRASES if phrase in told(error.value)] == []


@pytest.mark.parametrize("known", KNOWN_ERRORS, ids=lambda each: each["type"])
def test_each_kind_of_error_has_a_sentence_of_ours(known: Any) -> None:
    kind, context = known["type"], known.get("example_context")
    error = PydanticKnownError(kind, context)

    text = sentence(kind, context or {}, "field", otherwise=error.message())

    assert kind in SENTENCES
    assert [phrase for phrase in PHRASES if phrase in text] == []


class Outer(BaseModel):
    """A model whose validator checks a part by another model."""

    part: Any

    @field_validator("part")
    @classmethod
    def _is_right(cls, value: Any) -> Any:
        return Submission.model_validate(value)


def test_an_error_of_a_model_within_a_validator_is_told_in_words_of_ours() -> None:
    with pytest.raises(ValidationError) as error:
        Outer.model_validate({"part": {"script": "x"}})

    assert summary(error.value) == "part.job: is required"


JOB = {"environment": ["PATH=/usr/bin:/bin"]}


@pytest.mark.parametrize(
    ("job", "pointer", "detail", "hint"),
    [
        ({"time_limit": "1h"}, "time_limit", "must be a whole number of minutes, such as 60", "60 is one hour"),
        ({"memory_per_cpu": "4G"}, "memory_per_cpu", "must be a whole number of MiB, such as 4096", "4096 is 4 GiB"),
        ({"time_limit": -1}, "time_limit", "must be at least 0 minutes", ""),
        ({"tasks": 0}, "tasks", "must be at least 1", ""),
        ({"cpus_per_task": {"set": True, "number": 0}}, "cpus_per_task", "must be at least 1", ""),
        ({"nodes": 1}, "nodes", "must be a string", 'must be a string, such as "1"'),
        ({"priority": 1}, "priority", "it cannot be set here", "only operators set it"),
        ({"cpus_per_tasks": 1}, "cpus_per_tasks", "there is no such field", "did you mean `cpus_per_task`?"),
        ({"flags": ["SPREAD_JOBS"]}, "flags/0", "must be 'KILL_INVALID", "did you mean `SPREAD_JOB`?"),
        ({"environment": []}, "environment", "must have at least 1 item", "at least one variable"),
        ({"hold": 1}, "hold", "must be true or false", ""),
    ],
)
def test_a_wrong_field_of_a_job_says_what_is_right(job: dict[str, Any], pointer: str, detail: str, hint: str) -> None:
    sent = {"script": "#!/bin/sh\n", "job": JOB | job}
    step = {"run_name": "r", "steps": [{"step_id": "a", **sent}]}

    with pytest.raises(InvalidRequest) as alone:
        checked(Submission, sent, HINTS)
    with pytest.raises(InvalidRequest) as in_a_run:
        checked(RunRequest, step, STEP_HINTS)

    assert alone.value.errors[0].place == f"#/job/{pointer}"
    assert in_a_run.value.errors[0].place == f"#/steps/0/job/{pointer}"
    for error in (alone.value, in_a_run.value):
        assert detail in error.errors[0].detail
        assert hint in error.hint


def test_what_cannot_be_changed_is_told_so() -> None:
    with pytest.raises(InvalidRequest) as error:
        checked(RequestedChanges, {"account": "x"}, CHANGE_HINTS)

    assert error.value.detail == "account: it cannot be set here"
    assert "submit the job again" in error.value.hint


def test_a_short_list_of_fields_is_named_where_none_is_near() -> None:
    with pytest.raises(InvalidRequest) as error:
        checked(TemplateSubmission, {"template_id": "a", "zzz": 1})

    assert "the fields are confirmed_usd_per_hour, inputs, job, params, sbatch_override, " in error.value.hint


@pytest.mark.parametrize(
    ("step", "places"),
    [
        ({"template_id": "a", "script": "#!/bin/sh\n"}, {"job", "template_id"}),
        ({"script": "sh", "job": JOB}, {"script"}),
        ({"script": "#!/bin/sh\n", "job": {}}, {"job/environment"}),
        ({"script": "#!/bin/sh\n", "job": JOB, "stage_in": [{"source": "a"}]}, {"stage_in/0/destination"}),
        ({"template_id": "a", "params": []}, {"params"}),
    ],
)
def test_a_place_in_a_step_is_where_the_sender_wrote_it(step: dict[str, Any], places: set[str]) -> None:
    with pytest.raises(InvalidRequest) as error:
        checked(RunRequest, {"run_name": "r", "steps": [{"step_id": "a", **step}]}, STEP_HINTS)

    assert {each.place for each in error.value.errors} == {f"#/steps/0/{place}" for place in places}
