"""Scripts from definitions: both languages, defaults, bounds, overrides, arrays, and paths."""

import pytest
from clusterra_templates.problems import RenderRefused
from clusterra_templates.rendering import JobContext, Wanted, render
from template_examples import CONTEXT, NOW, OWN, VERSION_2, rendered, runnable, with_script


def test_an_own_definition_renders_with_its_defaults() -> None:
    found = rendered(OWN, text_file="in put.txt")

    assert found.script == (
        "#!/bin/bash\n#SBATCH --job-name=count-words\n#SBATCH --time=5\nset -eu\nmkdir -p counts/r1\necho words\n"
        "wc -w < 'in put.txt' > counts/r1/count.txt\n"
    )
    assert found.output_dir == "counts/r1"


STAGING = (
    OWN
    + """\
staging:
  current_working_directory: "counts/{{ ctx.run_id }}"
  stage_in:
    - {source: "{{ inputs.text_file }}", destination: text.txt}
    - {source: "{% if params.twice %}shared/words.txt{% endif %}", destination: words.txt}
  stage_out:
    - {source: "{{ params.label }}/*.[ab]", destination: "outputs/{{ ctx.run_id }}/"}
"""
)


def test_the_paths_of_staged_files_are_rendered_and_an_empty_source_is_left_out() -> None:
    found = rendered(STAGING, text_file="data/in put.txt").staged

    assert found is not None
    assert found.current_working_directory == "counts/r1"
    assert found.stage_in == (("data/in put.txt", "text.txt"),)
    assert found.stage_out == (("words/*.[ab]", "outputs/r1/"),)
    assert rendered(OWN, text_file="x").staged is None


def test_a_folder_that_ends_with_a_slash_is_the_same_folder_in_staged_paths() -> None:
    staging = STAGING.replace("outputs/{{ ctx.run_id }}/", "{{ params.label }}/{{ ctx.run_id }}")

    with_slash, without = (
        rendered(staging, {"label": folder}, text_file="data//x").staged for folder in ("outputs/a/", "outputs/a")
    )

    assert with_slash is not None
    assert without is not None
    assert [to for _, to in with_slash.stage_out] == [to for _, to in without.stage_out] == ["outputs/a/r1"]
    assert with_slash.stage_in == (("data/x", "text.txt"),)


@pytest.mark.parametrize(
    ("params", "text_file", "reason"),
    [
        ({}, "data/../../x", "`..`"),
        ({}, "data/a\tb", "a control character"),
        ({"label": "**"}, "data/x", "stands in a path"),
        ({"label": "../x"}, "data/x", "stands in a path"),
    ],
)
def test_a_value_that_may_not_stand_in_a_staged_path_is_refused(
    params: dict[str, object], text_file: str, reason: str
) -> None:
    with pytest.raises(RenderRefused, match=reason):
        rendered(STAGING, params, text_file=text_file)


def test_a_definition_of_version_2_renders_unchanged() -> None:
    found = rendered(VERSION_2, {"ntomp": 16, "config": "a: 1\nb: 2", "env": {"B": "two words"}}, input_tpr="a.tpr")

    assert found.script == (
        "#!/bin/bash\n#SBATCH --cpus-per-task=16\n#SBATCH --partition=cpu\nset -euo pipefail\n"
        'OUT="/mnt/efs/ada/md-r1"\nmkdir -p "$OUT"\n'
        "cat > \"$OUT/run.yaml\" <<'CONFIG'\nrun:\n  a: 1\n  b: 2\nCONFIG\n"
        'export B="two words"\necho mdrun:1 mdrun -s "a.tpr" -ntomp 16 \n'
    )
    assert found.artifacts == {"log": "/mnt/efs/ada/md-r1/md.log"}


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ({"unknown": 1}, "no such parameter"),
        ({"minutes": 0}, "from 1 to 60"),
        ({"minutes": 61}, "from 1 to 60"),
        ({"minutes": "x"}, "must be a number"),
        ({"minutes": True}, "must be a number"),
        ({"twice": "yes"}, "true or false"),
        ({"label": "a\nb"}, "one line"),
        ({"label": "a\0b"}, "control characters"),
        ({"label": ["a"]}, "text or a number"),
    ],
)
def test_a_wrong_value_is_refused_by_its_key(params: dict[str, object], reason: str) -> None:
    with pytest.raises(RenderRefused, match=reason) as error:
        rendered(OWN, params, text_file="a")

    assert next(iter(params)) in str(error.value)


def test_a_required_input_must_be_given() -> None:
    with pytest.raises(RenderRefused, match=r"text_file: this input is required"):
        rendered(OWN)


@pytest.mark.parametrize("path", ["-rf", "../etc/passwd", "a/../../b"])
def test_a_path_leads_nowhere_else(path: str) -> None:
    with pytest.raises(RenderRefused, match="text_file"):
        rendered(OWN, text_file=path)


@pytest.mark.parametrize("script", ['{{ index .params "y" }}', "{{ .nothing.x }}", "{{ .runtime.nothing }}"])
def test_a_missing_key_of_version_2_is_an_error(script: str) -> None:
    with pytest.raises(RenderRefused):
        rendered(with_script(f"#!/bin/bash\necho {script}", dialect="go"))


def test_a_missing_name_of_jinja_is_an_error() -> None:
    with pytest.raises(RenderRefused, match="no attribute"):
        rendered(with_script("#!/bin/bash\necho {{ runtime.nothing }}"))


def test_no_address_gets_into_a_script() -> None:
    text = VERSION_2.replace("echo {{", "echo {{ .ctx.user_email }} {{")

    found = rendered(text, input_tpr="a.tpr")

    assert "echo ada " in found.script
    assert "@" not in found.script


NEXTFLOW = VERSION_2.replace(
    'runtime: {kind: docker_image, image: "mdrun:1"}', "runtime: {kind: nextflow, pipeline_repo: a/b, revision: '1'}"
).replace(
    "script: |\n",
    "config: |\n  process.cpus = {{ .params.ntomp }}\n  process.queue = '{{ .params.extra }}'\nscript: |\n",
)
CONFIGURED = (
    NEXTFLOW.partition("  OUT=")[0]
    + "  cat > run.config <<'CONFIG'\n  {{ .config }}\n  CONFIG\n  run {{ .runtime.revision }}\n"
)


def test_the_configuration_of_nextflow_is_a_template_that_the_script_writes() -> None:
    found = rendered(CONFIGURED, {"ntomp": 3, "extra": "cpu"}, input_tpr="a")

    assert "<<'CONFIG'\nprocess.cpus = 3\nprocess.queue = 'cpu'\n\nCONFIG\n" in found.script


@pytest.mark.parametrize("value", ["x'; 'id'.execute(); '", "${id}", "a b", "a\tb"])
def test_a_value_becomes_no_code_in_a_configuration(value: str) -> None:
    with pytest.raises(RenderRefused, match="cannot stand in `config`"):
        rendered(CONFIGURED, {"extra": value}, input_tpr="a")


def test_what_a_preset_says_of_the_pipeline_takes_the_place_of_the_templates_own() -> None:
    wanted = Wanted(inputs={"input_tpr": "a"}, runtime={"revision": "2.0"})

    script = render(runnable(CONFIGURED), wanted, CONTEXT, now=NOW).script

    assert script.endswith("run 2.0\n")


VENV = VERSION_2.replace(
    'runtime: {kind: docker_image, image: "mdrun:1"}', "runtime: {kind: venv, requirements: ['rdkit==1', 'b<2']}"
).partition("script: |\n")[0]
IN_A_SHELL = (
    VENV + "script: |\n  #!/bin/bash\n  bash -c \"pip install {{range .runtime.requirements}}'{{.}}' {{end}}\"\n"
)


def test_the_authors_own_text_may_stand_in_the_authors_program_and_a_value_may_not() -> None:
    of_author = rendered(IN_A_SHELL, input_tpr="a")

    assert of_author.script.endswith("bash -c \"pip install 'rdkit==1' 'b<2' \"\n")
    with pytest.raises(RenderRefused, match="read as a program"):
        rendered(IN_A_SHELL.replace("{{.}}", "{{$.params.extra}}"), {"extra": "rdkit==1"}, input_tpr="a")


@pytest.mark.parametrize("value", ["ada@example.org", "a/../b", "a b", "$(id)"])
def test_a_path_of_outputs_takes_plain_values_only(value: str) -> None:
    text = OWN.replace("counts/{{ ctx.run_id }}", "counts/{{ params.label }}")

    with pytest.raises(RenderRefused, match="path"):
        rendered(text, {"label": value}, text_file="a")


def test_an_override_wins_and_keeps_the_other_lines() -> None:
    wanted = Wanted(inputs={"text_file": "a"}, sbatch_override={"time": "2:00:00", "gres": "gpu:1", "exclusive": True})

    script = render(runnable(OWN), wanted, CONTEXT, now=NOW).script

    assert script.startswith(
        "#!/bin/bash\n#SBATCH --job-name=count-words\n#SBATCH --time=2:00:00\n#SBATCH --gres=gpu:1\n"
        "#SBATCH --exclusive\nset -eu\n"
    )


@pytest.mark.parametrize(
    "override", [{"uid": "0"}, {"time": "1\n#SBATCH --uid=0"}, {"time": "1 --uid=0"}, {"wrap": "id"}, {"time": None}]
)
def test_an_override_has_bounds(override: dict[str, object]) -> None:
    wanted = Wanted(inputs={"text_file": "a"}, sbatch_override=override)

    with pytest.raises(RenderRefused, match="sbatch_override"):
        render(runnable(OWN), wanted, CONTEXT, now=NOW)


@pytest.mark.parametrize("value", ["0 --uid=0", "5\n#SBATCH --uid=0", "$(id)", "5 #"])
def test_a_value_adds_no_option(value: str) -> None:
    text = OWN.replace("{{ params.minutes }}", "5\n  #SBATCH --constraint={{ params.label }}")

    with pytest.raises(RenderRefused):
        rendered(text, {"label": value}, text_file="a")


def test_a_value_that_is_an_option_meets_the_deny_list() -> None:
    text = OWN.replace("#SBATCH --job-name=count-words", "#SBATCH {{ params.label }}")

    with pytest.raises(RenderRefused, match="--uid is not allowed here"):
        rendered(text, {"label": "--uid=0"}, text_file="a")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}", "more than 20000 rounds"),
        ("{% for a in range(9999) %}" + "x" * 1000 + "{% endfor %}", "longer than 512 KiB"),
        ("{% for a in range(100000000) %}{% endfor %}", "at most 10000 numbers"),
        ("{{ 10 * 'x' }}", "takes two numbers"),
        ("{{ params.x * 100000000 }}", "takes two numbers"),
        ("{{ 1000000000000000 * 1000000000000000 * 1000000000000000 }}", "at most 1000000000000000"),
        ("{{ 1 // 0 }}", "divides by zero"),
        ("{% for a in params.x %}{% endfor %}", "needs a list"),
    ],
)
def test_a_template_cannot_take_for_ever(script: str, reason: str) -> None:
    with pytest.raises(RenderRefused, match=reason):
        rendered(with_script(f"#!/bin/bash\n{script}"), {"x": "a"})


TABLE = (
    OWN.replace(
        "  - {key: text_file, role: generic_path, required: true}",
        "  - {key: text_file, role: raw_text, required: true, schema: {columns: [sample, size]}}",
    )
    .replace("outputs:", "array: {input: text_file, at_once: 2}\noutputs:")
    .replace("wc -w < {{ inputs.text_file }}", "true")
)


def test_an_array_over_a_table_stages_files_too() -> None:
    staging = STAGING.removeprefix(OWN).replace("{{ inputs.text_file }}", "data/table.txt")

    found = rendered(TABLE + staging, text_file="sample,size\na,1\n")

    assert found.staged is not None
    assert (found.tasks, found.staged.stage_in) == (1, (("data/table.txt", "text.txt"),))


def test_a_table_makes_an_array() -> None:
    found = rendered(TABLE, text_file='sample,size,note\n"a,b",1,x\nit\'s,2,y\n')

    assert found.tasks == 2
    assert "#SBATCH --array=1-2%2\n" in found.script
    assert "1) export ARRAY_ROW_SAMPLE='a,b' ARRAY_ROW_SIZE='1';;\n" in found.script
    assert "2) export ARRAY_ROW_SAMPLE='it'\"'\"'s' ARRAY_ROW_SIZE='2';;\n" in found.script
    assert "ARRAY_ROW_NOTE" not in found.script
    assert found.script.index("esac") < found.script.index("set -eu")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("sample,size\n", "no rows"),
        ("sample\na\n", "no column size"),
        ("sample,size\na\n", "line 2 has 1 values"),
        ("sample,size\n" + "a,1\n" * 1001, "more than 1000 rows"),
        ("sample,Sample,size\na,b,1\n", "same name"),
        ("sample,size,a b\na,1,2\n", "letters, digits"),
        ('sample,size\n"a,1\n', "line"),
    ],
)
def test_a_bad_table_is_refused(table: str, reason: str) -> None:
    with pytest.raises(RenderRefused, match=reason):
        rendered(TABLE, text_file=table)


@pytest.mark.parametrize("written", ["sample,size\na,1\n", "sample,size\r\na,1\r\n"])
def test_a_table_of_a_spreadsheet_is_read_without_its_byte_order_mark(written: str) -> None:
    found = rendered(TABLE, text_file=f"\ufeff{written}")

    assert found.script == rendered(TABLE, text_file="sample,size\na,1\n").script
    assert "\ufeff" not in found.script


def test_a_table_may_be_separated_by_tabs() -> None:
    found = rendered(TABLE, text_file="sample\tsize\na,b\t1\n")

    assert "ARRAY_ROW_SAMPLE='a,b'" in found.script
    assert "CLUSTERRA_ARRAY_MANIFEST_FORMAT=tsv" in found.script


def test_context_has_the_step_of_a_workflow() -> None:
    context = JobContext(user="ada", cluster_id="main", run_id="r1", workflow_run_id="w1", step_id="prep")
    text = OWN.replace("counts/{{ ctx.run_id }}", "{{ ctx.workflow_run_id }}/step-{{ ctx.step_id }}")

    found = render(runnable(text), Wanted(inputs={"text_file": "a"}), context, now=NOW)

    assert found.output_dir == "w1/step-prep"


def test_loops_and_numbers_are_computed() -> None:
    text = with_script("#!/bin/bash\n{% for n in range(3) %}\necho {{ n * 2 + 1 }} ${#HOME}\n{% endfor %}")

    assert rendered(text).script.endswith("echo 1 ${#HOME}\necho 3 ${#HOME}\necho 5 ${#HOME}\n")
