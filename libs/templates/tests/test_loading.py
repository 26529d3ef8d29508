"""Definitions from YAML: what is refused, on which line, and the JSON Schema of them all."""

import jsonschema
import pytest
import yaml
from clusterra_templates.definitions import Batch, OwnBatch, definition_schema
from clusterra_templates.loading import load
from clusterra_templates.problems import TemplateInvalid
from template_examples import OWN, VERSION_2

STAGED = "{current_working_directory: '{{ ctx.run_id }}', stage_out: [{source: '*', destination: outputs/}]}"


def test_the_format_tells_own_definitions_from_those_of_version_2() -> None:
    assert isinstance(load(OWN), OwnBatch)
    assert isinstance(load(VERSION_2), Batch)


@pytest.mark.parametrize(
    ("before", "after", "line", "reason"),
    [
        ("tools: [wc]", "toolz: [wc]", 5, "toolz"),
        ("widget: bool", "widget: slider", 13, "widget"),
        ("key: label", "key: Label", 11, "key"),
        ("id: count-words", "id: Count_Words", 2, "id"),
        ("--job-name=count-words", "--uid=0", 15, "--uid is not allowed here"),
        ("--job-name=count-words", "--account=x", 15, "--account is not allowed here"),
        ("#SBATCH --job-name=count-words", "rm -rf /", 15, "only #SBATCH lines"),
        ("#!/bin/bash", "#!/usr/bin/python3", 19, "bash or sh"),
        ("{{ params.label }}", "{{ params.label | shout }}", 22, "no filter `shout`"),
        ("{{ params.label }}", "{{ params.label.upper() }}", 22, "calls nothing but"),
        ("{{ params.label }}", "{% include 'x' %}", 22, "Include does not exist"),
        ("{% endif %}", "", None, "Unexpected end"),
        ("{key: label, widget: text", "{key: label, widget: enum", 11, "needs `options`"),
        ("tools: [wc]", "tools: [wc]\ntools: [wc]", 6, "two keys"),
        ("tools: [wc]", "tools: [wc]\narray: {}", 6, "array.input: Field required"),
        ("name: Count words", "name: &a Count words", 3, "anchors"),
        ("minutes, widget: number", "minutes, widget: bool", 12, "only a number"),
        ("minutes, widget", "label, widget", 1, "two parameters have the key label"),
        ("kind: batch", "kind: bash", 1, "must be batch, interactive, preset or workflow"),
        ("format: clusterra/1", "format: clusterra/9", 1, "clusterra/1"),
        (
            "tools: [wc]",
            "tools: [wc]\nstaging: {current_working_directory: words}",
            6,
            "needs `stage_in` or `stage_out`",
        ),
        ("tools: [wc]", f"tools: [wc]\nstaging: {STAGED.replace('ctx', '| ctx')}", 6, "no valid Jinja"),
    ],
)
def test_an_error_names_its_line(before: str, after: str, line: int | None, reason: str) -> None:
    text = OWN.replace(before, after, 1)

    with pytest.raises(TemplateInvalid) as error:
        load(text)

    assert reason in str(error.value)
    if line is not None:
        assert f"line {line}: " in str(error.value)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "\t", "a: !!python/object:os.system x", "{" * 3000, "x: *a"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(TemplateInvalid):
        load(text)


def test_a_definition_has_at_most_64_kib() -> None:
    with pytest.raises(TemplateInvalid, match="64 KiB"):
        load(OWN + "# " + "x" * 64 * 1024)


def test_the_schema_accepts_what_is_loaded_and_refuses_unknown_keys() -> None:
    schema = definition_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    for text in (OWN, VERSION_2, f"{OWN}staging: {STAGED}\n"):
        content = yaml.safe_load(text)
        assert validator.is_valid(content), list(validator.iter_errors(content))[:1]
        assert not validator.is_valid(content | {"extra": 1})
        assert not validator.is_valid({key: value for key, value in content.items() if key != "script"})
