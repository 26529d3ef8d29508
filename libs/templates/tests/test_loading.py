"""Definitions from YAML: what is refused, on which line, and the JSON Schema of them all."""

import jsonschema
import pytest
import yaml
from clusterra_templates.definitions import Batch, OwnBatch, Preset, definition_schema
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
        ("tools: [wc]", "tools: [wc]\narray: {}", 6, "array.input: is required"),
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
        ("tools: [wc]", "tools: [wc]\nconfig: x", 6, "only a Nextflow runtime has `config`"),
        ("{{ params.label }}", "{{ params.lable }}", 22, "no params.lable: did you mean label?"),
        ("{{ params.label }}", "{{ inputs['x'] }}", 22, "no inputs.x: there is text_file"),
        ("--time={{ params.minutes }}", "--time={{ params.nothing }}", 16, "no params.nothing"),
        ("{{ ctx.run_id }}", "{{ params.run }}", 17, "no params.run"),
    ],
)
def test_an_error_names_its_line(before: str, after: str, line: int | None, reason: str) -> None:
    text = OWN.replace(before, after, 1)

    with pytest.raises(TemplateInvalid) as error:
        load(text)

    assert reason in str(error.value)
    if line is not None:
        assert f"line {line}: " in str(error.value)


def test_a_value_that_is_asked_for_may_be_missing() -> None:
    load(OWN.replace("{% if params.twice %}", "{% if params.nothing is defined and params.twice %}"))


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("{{ .params.nothing }}", "{{ .params.ntomp }}"),
        ("{{ if .inputs.nothing }}x{{ end }}", "{{ if .inputs.input_tpr }}x{{ end }}"),
        ("{{ range .params.nothing }}x{{ end }}", "{{ range .params.env }}{{ .params.nothing }}{{ end }}"),
        ("{{ range .params.env }}{{ $.params.nothing }}{{ end }}", "{{ $.params.ntomp }}"),
        ("{{ int (int .params.nothing) | quote }}", "{{ int (int .params.ntomp) | quote }}"),
        ("{{ .outputs.nothing }}", "{{ .outputs.log }}"),
    ],
)
def test_a_draft_of_version_2_names_only_values_that_it_has(wrong: str, right: str) -> None:
    load(VERSION_2.replace("{{ .params.extra }}", right))

    with pytest.raises(TemplateInvalid, match=r"line 40: there is no (params|inputs|outputs)\.nothing"):
        load(VERSION_2.replace("{{ .params.extra }}", wrong))


RUNTIMES = [
    "{kind: docker_image, image: a, registry_auth: b, notes: c}",
    "{kind: host_binary, build_image: a, binary_path: b, build_command: c, notes: d}",
    "{kind: venv, python_version: '3.12', cache_dir: a, requirements: [b], notes: c}",
    "{kind: host_system, binary: a, notes: b}",
    "{kind: nextflow, pipeline_repo: a/b, revision: '1', nxf_version: '25.10.2', notes: c}",
    "{kind: interactive_image, image: a, registry_auth: b, notes: c}",
]


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_every_runtime_of_version_2_is_read_with_all_that_it_may_have(runtime: str) -> None:
    found = load(VERSION_2.replace('{kind: docker_image, image: "mdrun:1"}', runtime))

    assert isinstance(found, Batch)
    assert found.runtime.model_dump(exclude_none=True, exclude_unset=True, mode="json") == yaml.safe_load(runtime)


def test_a_preset_of_version_2_has_a_revision_and_parameters() -> None:
    head = VERSION_2.partition("kind: batch\n")[0]

    found = load(
        head + "kind: preset\ntier: borrowed\npipeline_repo: nf-core/sarek\nrevision: '3.6.1'\n"
        "parameters:\n  - {key: profile, widget: enum, options: [docker, none], default: docker}\n"
    )

    assert isinstance(found, Preset)
    assert (found.revision, [each.default for each in found.all_parameters]) == ("3.6.1", ["docker"])


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


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("widget: bool", "widget: [bool]", "parameters.2.widget: must be 'text', "),
        ("min: 1", "min: low", "parameters.1.min: must be a "),
        ("tools: [wc]", "tools: wc", "tools: must be a list"),
        ("tools: [wc]", "tools: [wc]\nready: maybe", "ready: must be true or false"),
        (
            "runtime: {kind: host_system, binary: wc}",
            "runtime: {kind: host}",
            "runtime: has 'kind' 'host', which must be",
        ),
        ("runtime: {kind: host_system, binary: wc}", "runtime: {kind: host_system}", "runtime.binary: is required"),
    ],
)
def test_an_error_of_a_definition_is_told_in_words_of_ours(before: str, after: str, reason: str) -> None:
    with pytest.raises(TemplateInvalid) as error:
        load(OWN.replace(before, after, 1))

    assert reason in str(error.value)
    assert "Input" not in str(error.value)
