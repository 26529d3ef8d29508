"""Templates whose author means harm: none takes the gateway's memory or time, and none calls what is not offered."""

import resource
import subprocess
import sys

import pytest
from clusterra_templates.jinja_language import JinjaTemplate
from clusterra_templates.pieces import RenderBounds, joined
from clusterra_templates.problems import TemplateInvalid

_THOUSAND = "a" * 1000
_LARGER = f'|replace("a", "{_THOUSAND}")'
_LISTS = '{% set a = ["aaaaaaaaaa"] %}{% set b = ["aaaaaaaaaa"] %}' + 10 * (
    f"{{% set a = [{10 * 'a,'}] %}}{{% set b = ({10 * 'b,'}) %}}"
)
_GO_LARGER = " | ".join(4 * [f'replace "a" "{_THOUSAND}"'])
_GO_LINES = 'replace "a" "' + 1000 * r"\n" + '"'
_GO_INDENTED = " | ".join(20 * ["indent 100"])

_RENDER = """
import sys
from clusterra_templates.go_rendering import GoTemplate
from clusterra_templates.jinja_language import JinjaTemplate
from clusterra_templates.pieces import RenderBounds
from clusterra_templates.problems import RenderRefused, TemplateInvalid

language = {"go": GoTemplate, "jinja": JinjaTemplate}[sys.argv[1]]
try:
    language(sys.stdin.read()).pieces({}, RenderBounds())
except (RenderRefused, TemplateInvalid) as refused:
    print(type(refused).__name__, refused)
"""
_LOAD = """
import sys
from clusterra_templates.loading import load
from clusterra_templates.problems import TemplateInvalid

try:
    load(sys.stdin.read())
except TemplateInvalid as refused:
    print(type(refused).__name__, refused)
"""


def _bounded_process() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (512 * 1024**2, 512 * 1024**2))
    resource.setrlimit(resource.RLIMIT_CPU, (25, 25))


def _said(program: str, source: str, *arguments: str) -> str:
    """What a program says of a source, in a process with 512 MiB and 25 s of CPU."""
    ran = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        input=source,
        capture_output=True,
        text=True,
        timeout=90,
        preexec_fn=_bounded_process,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-500:]
    return ran.stdout


@pytest.mark.parametrize(
    ("language", "source"),
    [
        ("jinja", "{% set x = 'a'" + 4 * _LARGER + " %}{{ x|length }}"),
        ("jinja", "{{ 'a'" + 4 * _LARGER + " }}"),
        ("jinja", "{% set x = 'a'" + _LARGER + " %}{{ [" + 5000 * "x," + "]|join(x)|length }}"),
        ("jinja", _LISTS + "{{ a|json|length }}"),
        ("jinja", _LISTS + "{{ a }}"),
        ("jinja", _LISTS + "{{ a == b }}"),
        ("go", f'{{{{ $x := "a" | {_GO_LARGER} }}}}{{{{ len $x }}}}'),
        ("go", f'{{{{ $x := "a" | {_GO_LINES} | {_GO_INDENTED} }}}}{{{{ len $x }}}}'),
    ],
)
def test_a_template_makes_no_value_that_fills_the_memory(language: str, source: str) -> None:
    said = _said(_RENDER, source, language)

    assert said.startswith("RenderRefused")
    assert "keep data in files" in said


@pytest.mark.parametrize("name", ["'x'.ljust", "'x'.zfill", "params.t.split", "(5).to_bytes"])
def test_no_method_gets_the_name_of_the_function_that_may_be_called(name: str) -> None:
    for source in (
        f"{{% set range = {name} %}}{{{{ range(900000000)|length }}}}",
        f"{{% for range in [{name}] %}}{{{{ range(900000000)|length }}}}{{% endfor %}}",
        f"{{% for n, range in [[1, {name}]] %}}{{{{ range(900000000)|length }}}}{{% endfor %}}",
    ):
        with pytest.raises(TemplateInvalid, match="`range` is a function"):
            JinjaTemplate(source)


@pytest.mark.parametrize("source", ["{{" * 30_000, "{{- " * 15_000, "{{ 1" * 15_000])
def test_beginnings_without_ends_are_read_once(source: str) -> None:
    said = _said(_RENDER, source, "go")

    assert "`{{` without `}}`" in said


@pytest.mark.parametrize("line", ["{{" * 30_000, "{%" * 30_000, "{##" * 20_000, "#{{\n" * 15_000])
def test_lines_of_sbatch_with_beginnings_without_ends_are_read_once(line: str) -> None:
    definition = (
        "id: a\nname: a\ndescription: a\nvertical: a\ncategory: a\nworkload_group: a\nmodality: a\ntools: []\n"
        "ready: true\nkind: batch\nruntime: {kind: host_system, binary: a}\ninputs: []\nparameters: []\n"
        'outputs: {dir: a}\nscript: "#!/bin/bash\\n"\nsbatch: |\n'
    )
    said = _said(_LOAD, definition + "".join(f"  {each}\n" for each in line.splitlines()))

    assert said.startswith("TemplateInvalid")
    assert len(said) < 1000


def test_a_number_of_many_digits_is_refused() -> None:
    with pytest.raises(TemplateInvalid, match="too long"):
        JinjaTemplate(f"{{{{ {5000 * '1'} }}}}")


def test_lists_and_tuples_are_still_what_they_were() -> None:
    template = JinjaTemplate(
        "{% set a, b = ('x', 'y') %}{% for n, m in [(1, a), (2, b)] %}{{ n }}{{ m }}{% endfor %}"
        "{{ ['a', 'b']|join('-') }}{{ 'a' in ['a'] }}{{ [1, [2]]|json }}{{ [3, 4][1] }}"
    )

    assert joined(template.pieces({}, RenderBounds())) == "1x2ya-btrue[1, [2]]4"
