"""Templates through the API: lists, dry renders, submits, runs of workflows, and templates of a workspace."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import jsonschema
import pytest
import yaml
from clusterra_gateway.settings import Settings
from clusterra_gateway.templates import authoring, records
from gateway_world import World
from sse_reader import sse_reader
from template_definition import OWN

SUBMIT = "/v1/clusters/main/jobs/submit"
SHELL = {"params": {"commands": "echo it's $HOME"}}


async def called(
    browser: aiohttp.ClientSession, method: str, path: str, body: Any = None, *, status: int, key: str = ""
) -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    async with browser.request(method, path, json=body, headers=headers) as answer:
        assert answer.status == status, await answer.text()
        return await answer.json() if answer.content_length != 0 and status != 204 else None


async def published(author: aiohttp.ClientSession, admin: aiohttp.ClientSession, text: str = OWN) -> str:
    """A template of the workspace with one version in use."""
    made = await called(author, "POST", "/v1/templates", {"definition": text}, status=201)
    place = f"/v1/templates/{made['id']}/versions/{made['versions'][-1]['version']}"
    await called(admin, "POST", f"{place}/review", {"approve": True}, status=200)
    await called(admin, "POST", f"{place}/publish", status=200)
    return str(made["id"])


async def test_everybody_finds_the_catalogue(world: World) -> None:
    ada = await world.login("ada@acme.example")

    listed = await called(ada, "GET", "/v1/templates", status=200)
    shell = await called(ada, "GET", "/v1/templates/shell", status=200)
    schema = await called(ada, "GET", "/v1/templates/schema", status=200)

    assert listed["total"] == len(listed["templates"]) >= 20
    assert {
        "id",
        "name",
        "description",
        "kind",
        "ready",
        "parameters",
        "parent_id",
        "static_values",
        "schema_values",
    } <= (listed["templates"][0].keys())
    assert shell["parameters"][0] == {
        "name": "commands",
        "type": "textarea",
        "label": "commands",
        "default": None,
        "options": None,
        "min": None,
        "max": None,
        "required": True,
        "advanced": False,
        "description": "Lines of bash.",
    }
    jsonschema.Draft202012Validator(schema).validate(shell["definition"])
    await called(ada, "GET", "/v1/templates/nothing", status=404)
    assert await called(ada, "GET", "/v1/templates/shell/versions", status=200) == {"id": "shell", "versions": []}


async def test_launchables_are_filtered(world: World) -> None:
    ada = await world.login("ada@acme.example")

    presets = await called(ada, "GET", "/v1/launchables?kind=preset&pipeline_repo=nf-core/demo", status=200)
    workflows = await called(ada, "GET", "/v1/launchables?kind=workflow", status=200)

    assert [each["id"] for each in presets["launchables"]] == ["nf-demo-quick"]
    assert [each["id"] for each in workflows["launchables"]] == ["benchmark-report"]
    await called(ada, "GET", "/v1/launchables?kind=x", status=400)


async def test_a_dry_render_submits_nothing(world: World) -> None:
    ada = await world.login("ada@acme.example")

    nested = await called(ada, "POST", "/v1/launchables/shell/render", SHELL, status=200)
    flat = await called(ada, "POST", "/v1/launchables/shell/render", SHELL["params"], status=200)

    assert "commands='echo it'\"'\"'s $HOME'\n" in nested["script"]
    assert flat == nested
    assert world.acme.submits == []


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"params": {"commands": "x", "colour": "red"}}, "colour"),
        ({"params": {}}, "commands: this parameter is required"),
        ({"params": {"commands": "x", "cpus": 0}}, "from 1 to 128"),
        ({"params": {"commands": "x"}, "sbatch_override": {"uid": "0"}}, "cannot be set"),
        ({"params": {"commands": "x"}, "cluster_id": "secret"}, "no such cluster"),
        ({"params": [1]}, "params"),
    ],
)
async def test_a_wrong_request_says_what_to_change(world: World, body: dict[str, Any], reason: str) -> None:
    ada = await world.login("ada@acme.example")

    status = 404 if "cluster_id" in body else 400
    problem = await called(ada, "POST", "/v1/launchables/shell/render", body, status=status)

    assert reason in problem["detail"]


async def test_a_template_is_submitted_once_for_a_key(world: World) -> None:
    ada = await world.login("ada@acme.example")
    body = {**SHELL, "sbatch_override": {"time": "1:00:00"}}

    first = await called(ada, "POST", "/v1/launchables/shell/submit", body, status=201, key="nightly-1")
    again = await called(ada, "POST", "/v1/launchables/shell/submit", body, status=201, key="nightly-1")
    await called(ada, "POST", "/v1/launchables/shell/submit", SHELL, status=422, key="nightly-1")

    assert (first["job_id"], first["run_id"], first["repeated"]) == ("1", None, False)
    assert (again["job_id"], again["repeated"]) == ("1", True)
    (submit,) = world.acme.submits
    assert submit.job.name == "shell"
    assert "#SBATCH --time=1:00:00\n" in submit.script
    assert submit.user.name == "ada"


async def test_the_ordinary_submit_takes_a_template(world: World) -> None:
    ada = await world.login("ada@acme.example")
    body = {"template_id": "shell", **SHELL, "job": {"environment": ["PATH=/bin"], "name": "mine", "partition": "gpu"}}

    first = await called(ada, "POST", SUBMIT, body, status=201, key="by-template")
    again = await called(ada, "POST", SUBMIT, body, status=201, key="by-template")
    estimate = await called(ada, "POST", f"{SUBMIT}?dry_run=true", body, status=200)

    assert (first["job_id"], again["job_id"], again["repeated"]) == ("1", "1", True)
    (submit,) = world.acme.submits
    assert (submit.job.name, submit.job.partition) == ("mine", "gpu")
    assert estimate["tasks"] >= 1
    assert "commands" in submit.script
    workflow = await called(ada, "POST", SUBMIT, {"template_id": "benchmark-report"}, status=400)
    assert "launchables/benchmark-report/submit" in workflow["hint"]
    both = {**body, "script": "#!/bin/sh\n"}
    assert (await called(ada, "POST", SUBMIT, both, status=400))["errors"]


async def test_no_address_gets_into_a_script(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    template = await published(ada, boss, OWN.replace("{{ params.whom }}", "{{ ctx.user_email }}"))

    shown = await called(ada, "POST", f"/v1/launchables/{template}/render", {}, status=200)

    assert shown["script"].endswith("echo hello ada\n")


async def test_a_workflow_is_a_run(world: World) -> None:
    ada = await world.login("ada@acme.example")
    body = {"params": {"large.size_mib": 2}, "run_name": "tonight"}

    launched = await called(ada, "POST", "/v1/launchables/benchmark-report/submit", body, status=201, key="night-shift")
    again = await called(ada, "POST", "/v1/launchables/benchmark-report/submit", body, status=201, key="night-shift")

    assert launched["job_id"] is None
    assert (again["run_id"], again["repeated"]) == (launched["run_id"], True)
    run = await called(ada, "GET", f"/v1/clusters/main/runs/{launched['run_id']}", status=200)
    assert (run["run_name"], [step["step_id"] for step in run["steps"]]) == ("tonight", ["small", "large", "report"])
    assert [each.job.dependency for each in world.acme.submits] == [None, None, "afterok:1:2"]
    assert "count=4 " not in world.acme.submits[1].script
    assert "count=2\n" in world.acme.submits[1].script
    folders = [each.script.partition("mkdir -p ")[2].partition("\n")[0] for each in world.acme.submits[:2]]
    assert len(set(folders)) == 2
    wrong = await called(ada, "POST", "/v1/launchables/benchmark-report/render", {"size_mib": 2}, status=400)
    assert "step.key" in wrong["detail"]


async def test_the_steps_of_a_run_may_be_templates(world: World) -> None:
    ada = await world.login("ada@acme.example")
    script = {"step_id": "before", "script": "#!/bin/sh\ntrue\n", "job": {"environment": ["PATH=/usr/bin:/bin"]}}
    hello = {"step_id": "hello", "template_id": "shell", "params": {"commands": "echo hello"}}
    twice = hello | {"step_id": "again", "depends_on": ["before"], "sbatch_override": {"time": "7"}}
    body = {"run_name": "mixed", "steps": [script, hello, twice]}

    run = await called(ada, "POST", "/v1/clusters/main/runs", body, status=201, key="mixed-steps")
    again = await called(ada, "POST", "/v1/clusters/main/runs", body, status=201, key="mixed-steps")

    assert again["run_id"] == run["run_id"]
    assert [step["step_id"] for step in run["steps"]] == ["before", "hello", "again"]
    assert [each.job.dependency for each in world.acme.submits] == [None, "afterok:1", "afterok:1"]
    assert all("echo hello" in each.script for each in world.acme.submits[1:])
    assert "--time=7\n" in world.acme.submits[2].script


@pytest.mark.parametrize(
    ("step", "status", "reason"),
    [
        ({"template_id": "shell", "params": {"none": 1}}, 400, "step one: "),
        ({"template_id": "benchmark-report"}, 400, "a workflow is a run of its own"),
        ({"template_id": "no-such-template"}, 404, "template"),
        ({"template_id": "shell", "script": "#!/bin/sh"}, 400, "template_id"),
    ],
)
async def test_a_step_that_cannot_be_rendered_starts_no_run(
    world: World, step: dict[str, Any], status: int, reason: str
) -> None:
    ada = await world.login("ada@acme.example")
    body = {"run_name": "wrong", "steps": [{"step_id": "one", **step}]}

    refused = await called(ada, "POST", "/v1/clusters/main/runs", body, status=status)

    assert reason in str(refused)
    assert (await called(ada, "GET", "/v1/clusters/main/runs", None, status=200))["runs"] == []
    assert world.acme.submits == []


async def test_a_preset_lies_over_its_template(world: World) -> None:
    ada = await world.login("ada@acme.example")
    body = {"inputs": {"samplesheet": "a.csv"}, "params": {"hours": 2, "pipeline": {"more": 1}}}

    shown = await called(ada, "POST", "/v1/launchables/nf-demo-quick/render", body, status=200)

    assert "--cpus-per-task=2\n" in shown["script"]
    assert "--time=2:00:00\n" in shown["script"]
    assert '{"more": 1, "skip_trim": true}' in shown["script"]


NEXTFLOW = """\
id: nf-any
name: Any pipeline
description: Runs it.
vertical: a
category: b
workload_group: c
modality: d
tools: [nextflow]
ready: true
kind: batch
runtime: {kind: nextflow, pipeline_repo: nf-core/hello, revision: master, nxf_version: "25.10.2"}
inputs: []
parameters:
  - {key: pipeline_repo, widget: text, default: ""}
  - {key: profile, widget: text, default: docker}
  - {key: extra, widget: text, default: ""}
sbatch: ""
outputs: {dir: out, artifacts: []}
config: |
  process.executor = 'slurm'
script: |
  #!/bin/bash
  cat > run.config <<'EOF'
  {{.config}}
  EOF
  nextflow run {{.runtime.pipeline_repo}} -r {{.runtime.revision}} -profile {{.params.profile}} {{.params.extra}}
"""
OVERLAY = """\
id: nf-other
name: Other
description: Runs another pipeline.
vertical: a
category: b
workload_group: c
modality: d
tools: [nextflow]
ready: true
kind: preset
tier: borrowed
pipeline_repo: nf-core/other
revision: "3.6.1"
parameters:
  - {key: profile, widget: text, default: apptainer}
  - {key: extra, widget: text, default: ""}
"""


async def test_a_preset_of_version_2_pins_the_pipeline_of_a_template_that_runs_any(world: World) -> None:
    ada, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "boss")]
    await published(ada, boss, NEXTFLOW)
    await published(ada, boss, OVERLAY)

    of_preset = await called(ada, "POST", "/v1/launchables/nf-other/render", {}, status=200)
    of_person = await called(ada, "POST", "/v1/launchables/nf-other/render", {"params": {"profile": "x"}}, status=200)
    shown = await called(ada, "GET", "/v1/templates/nf-other", status=200)

    assert "nextflow run nf-core/other -r 3.6.1 -profile apptainer" in of_preset["script"]
    assert "process.executor = 'slurm'" in of_preset["script"]
    assert "-profile x" in of_person["script"]
    assert [(each["name"], each["default"]) for each in shown["parameters"]] == [
        ("profile", "apptainer"),
        ("extra", ""),
    ]


WORKFLOW = OVERLAY.partition("kind: preset")[0].replace("nf-other", "chain") + "kind: workflow\nsteps:\n"


@pytest.mark.parametrize(
    ("definition", "reason"),
    [
        (OVERLAY + "parent_id: nf-any\nstatic_values: {profil: x}\n", "gives profil, which the template nf-any"),
        (OVERLAY.replace("key: profile", "key: profiles") + "parent_id: nf-any\n", "did you mean profile?"),
        (WORKFLOW + "  - {step_id: a, template_id: nf-any, param_overrides: {profil: x}}\n", "step a gives profil"),
        (WORKFLOW + "  - {step_id: a, template_id: nf-any, input_overrides: {nothing: x}}\n", "step a gives nothing"),
    ],
)
async def test_a_draft_gives_other_templates_only_what_they_take(world: World, definition: str, reason: str) -> None:
    ada, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "boss")]
    await published(ada, boss, NEXTFLOW)

    refused = await called(ada, "POST", "/v1/templates", {"definition": definition}, status=400)

    assert reason in refused["detail"]


async def test_a_draft_is_used_once_an_admin_has_published_it(world: World) -> None:
    ada, bob, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "bob", "boss")]
    made = await called(ada, "POST", "/v1/templates", {"definition": OWN}, status=201)
    place = "/v1/templates/greet/versions/1"
    assert [(each["version"], each["state"], each["published"]) for each in made["versions"]] == [(1, "draft", False)]

    shown = await called(bob, "GET", "/v1/templates/greet", status=200)
    assert (shown["ready"], shown["origin"]) == (False, "workspace")
    await called(bob, "POST", "/v1/launchables/greet/submit", {}, status=409)
    await called(boss, "POST", f"{place}/publish", status=409)
    await called(ada, "POST", f"{place}/review", {"approve": True}, status=403)
    await called(boss, "POST", f"{place}/review", {"approve": True, "note": "fine"}, status=200)
    await called(ada, "POST", f"{place}/publish", status=403)
    await called(boss, "POST", f"{place}/publish", status=200)

    await called(bob, "POST", "/v1/launchables/greet/submit", {"params": {"whom": "a b"}}, status=201)
    assert world.acme.submits[0].script.endswith("echo hello 'a b'\n")


NEWER = {"definition": OWN.replace("hello", "good day")}
VERSIONS = "/v1/templates/greet/versions"


async def last_line(browser: aiohttp.ClientSession, version: str = "") -> str:
    """The last line of the script that a person's template gives."""
    shown = await called(browser, "POST", f"/v1/launchables/greet/render{version}", {}, status=200)
    return str(shown["script"]).splitlines()[-1]


async def test_a_draft_is_shown_to_who_asks_for_it(world: World) -> None:
    ada, bob, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "bob", "boss")]
    await published(ada, boss)
    await called(ada, "POST", VERSIONS, NEWER, status=201)

    lines = [await last_line(bob), await last_line(bob, "?version=2")]

    assert lines == ["echo hello world", "echo good day world"]
    await called(bob, "POST", "/v1/launchables/greet/render?version=3", {}, status=404)


async def test_only_the_author_and_admins_add_a_version(world: World) -> None:
    ada, bob, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "bob", "boss")]
    await published(ada, boss)

    await called(bob, "POST", VERSIONS, NEWER, status=403)

    await called(ada, "POST", VERSIONS, NEWER, status=201)


async def test_a_version_is_rolled_back(world: World) -> None:
    ada, bob, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "bob", "boss")]
    await published(ada, boss)
    await called(ada, "POST", VERSIONS, NEWER, status=201)
    await called(boss, "POST", f"{VERSIONS}/2/review", {"approve": True}, status=200)
    await called(boss, "POST", f"{VERSIONS}/2/publish", status=200)
    newer = await last_line(bob)

    await called(boss, "POST", f"{VERSIONS}/1/publish", status=200)
    older, kept = await last_line(bob), await called(ada, "GET", f"{VERSIONS}/2", status=200)

    assert (newer, older) == ("echo good day world", "echo hello world")
    assert kept["definition"] == NEWER["definition"]


async def test_a_published_version_is_not_reviewed_again(world: World) -> None:
    ada, boss = [await world.login(f"{name}@acme.example") for name in ("ada", "boss")]
    await published(ada, boss)
    await called(ada, "POST", VERSIONS, NEWER, status=201)
    await called(boss, "POST", f"{VERSIONS}/2/review", {"approve": True}, status=200)
    await called(boss, "POST", f"{VERSIONS}/2/publish", status=200)

    await called(boss, "POST", f"{VERSIONS}/2/review", {"approve": False}, status=409)


async def test_every_change_is_told(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")

    async with sse_reader(boss, "/v1/clusters/main/events/stream") as stream:
        await published(ada, boss)
        await called(ada, "DELETE", "/v1/templates/greet", status=204)
        kinds = ["template.created", "template.reviewed", "template.published", "template.deleted"]

        await stream.until_events(4)

    assert [(kind in each.data, "greet" in each.data) for kind, each in zip(kinds, stream.events, strict=True)] == (
        [(True, True)] * 4
    )


async def test_other_tenants_see_nothing_of_a_template(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    chief = await world.login("chief@rival.example")
    await published(ada, boss)

    assert "greet" not in {
        each["id"] for each in (await called(chief, "GET", "/v1/templates", status=200))["templates"]
    }
    for method, path in (
        ("GET", "/v1/templates/greet"),
        ("GET", "/v1/templates/greet/versions"),
        ("GET", "/v1/templates/greet/versions/1"),
        ("POST", "/v1/templates/greet/versions/1/publish"),
        ("DELETE", "/v1/templates/greet"),
    ):
        await called(chief, method, path, status=404)
    await called(chief, "POST", "/v1/launchables/greet/render", {}, status=404)


async def test_a_deleted_template_comes_back_with_higher_numbers(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    await published(ada, boss)
    await called(ada, "DELETE", "/v1/templates/greet", status=204)

    made = await called(ada, "POST", "/v1/templates", {"definition": OWN}, status=201, key="once-more")
    again = await called(ada, "POST", "/v1/templates", {"definition": OWN}, status=201, key="once-more")

    assert made == again
    assert [each["version"] for each in made["versions"]] == [2]
    await called(ada, "POST", "/v1/templates", {"definition": OWN}, status=409)


async def test_templates_and_versions_have_bounds(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = await world.login("ada@acme.example")
    monkeypatch.setattr(authoring, "MAX_TEMPLATES", 1)
    monkeypatch.setattr(records, "MAX_VERSIONS", 3)
    await called(ada, "POST", "/v1/templates", {"definition": OWN}, status=201)

    await called(ada, "POST", "/v1/templates", {"definition": OWN.replace("greet", "other")}, status=409)
    for _ in range(4):
        shown = await called(ada, "POST", "/v1/templates/greet/versions", {"definition": OWN}, status=201)

    assert [each["version"] for each in shown["versions"]] == [3, 4, 5]
    await called(ada, "GET", "/v1/templates/greet/versions/1", status=404)
    problem = await called(ada, "POST", "/v1/templates", {"definition": OWN + "# " + "x" * 64 * 1024}, status=400)
    assert "definition" in problem["detail"]


async def test_a_bad_definition_names_its_line(world: World) -> None:
    ada = await world.login("ada@acme.example")
    wrong = {"definition": OWN.replace("tools:", "toolz:")}

    problem = await called(ada, "POST", "/v1/templates", wrong, status=400)

    assert "line 5: toolz" in problem["detail"]


async def test_a_definition_of_version_2_is_a_template_too(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    content = yaml.safe_load(OWN)
    del content["format"]
    content |= dict.fromkeys(("vertical", "category", "workload_group", "modality"), "x") | {"ready": True}
    content["script"] = "#!/bin/sh\necho {{ .params.whom | quote }}\n"
    template = await published(ada, boss, yaml.safe_dump(content))

    shown = await called(ada, "POST", f"/v1/launchables/{template}/render", {"whom": "$(id)"}, status=200)

    assert shown["script"].endswith('echo "\\$(id)"\n')


async def test_two_admins_at_once_publish_one_version(world: World) -> None:
    ada, boss = await world.login("ada@acme.example"), await world.login("boss@acme.example")
    await published(ada, boss)
    await called(ada, "POST", "/v1/templates/greet/versions", {"definition": OWN}, status=201)
    await called(boss, "POST", "/v1/templates/greet/versions/2/review", {"approve": True}, status=200)
    place = "/v1/templates/greet/versions"

    await asyncio.gather(*(called(boss, "POST", f"{place}/{each}/publish", status=200) for each in (1, 2, 1, 2)))

    shown = await called(boss, "GET", place, status=200)
    assert [each["published"] for each in shown["versions"]].count(True) == 1


@pytest.fixture
def settings(settings: Settings, tmp_path: Path, request: pytest.FixtureRequest) -> Settings:
    """The settings, for one test with a catalogue of which a file is broken."""
    if "broken" not in request.node.name:
        return settings
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "bad.yaml").write_text("id: [")
    (tmp_path / "templates" / "greet.yaml").write_text(OWN)
    return settings.model_copy(update={"templates_dir": tmp_path / "templates"})


async def test_a_broken_file_of_the_catalogue_hides_no_other(world: World) -> None:
    ada = await world.login("ada@acme.example")

    listed = await called(ada, "GET", "/v1/templates", status=200)

    assert [each["id"] for each in listed["templates"]] == ["greet"]
