"""The link check finds what leads nowhere, and nothing else."""

import pytest
from link_check import problems, read

FILES = {
    "README.md": "# Clusterra\n\n## Two commands: `make`\n\n## Again\n\n## Again\n",
    "docs/guide/first-change.md": "",
    "libs/contracts/src/events.py": "",
}


def found(text: str) -> list[str]:
    """The problems of a document in docs/guide."""
    files = FILES | {"docs/guide/page.md": text}
    return list(problems({path: lambda content=content: content for path, content in files.items()}))  # type: ignore[misc]


@pytest.mark.parametrize(
    "text",
    [
        "[a file](first-change.md) and [a folder](../../libs/contracts)",
        "[a heading](../../README.md#two-commands-make), [the second of its name](../../README.md#again-1)",
        "# Own heading\n\n[here](#own-heading)",
        '<a id="named"></a>\n\n[here](#named)',
        "[elsewhere](https://example.com/missing.md), [mail](mailto:nobody@example.com)",
        "`libs/contracts`, `libs/contracts/`, `first-change.md`, `src/events.py`",
        "`event.<tenant>.<cluster>`, `docs/*.md`, `docs/adr/NNNN-<title>.md`, `/etc/slurm/missing.py`",
        "```\nlibs/missing.py and [a link](missing.md)\n```",
    ],
)
def test_what_leads_somewhere_is_no_problem(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[a file](missing.md)", "the link missing.md leads to no tracked file"),
        ("![an image](../missing.svg)", "the link ../missing.svg leads to no tracked file"),
        ("[x]\n\n[x]: missing.md", "the link missing.md leads to no tracked file"),
        ("[a heading](../../README.md#missing)", "the link ../../README.md#missing leads to no heading"),
        ("[here](#missing)", "the link #missing leads to no heading"),
        ("`libs/missing`", "there is no `libs/missing`"),
        ("| a |\n|---|\n| `bus/missing.py` |", "there is no `bus/missing.py`"),
    ],
)
def test_what_leads_nowhere_is_named(text: str, problem: str) -> None:
    (only,) = found(text)

    assert only.startswith("docs/guide/page.md:")
    assert only.endswith(f": {problem}")


def test_a_problem_is_named_with_its_line() -> None:
    assert found("# Title\n\nText.\n\n[a file](missing.md)\n") == [
        "docs/guide/page.md:5: the link missing.md leads to no tracked file"
    ]


def test_headings_have_the_anchors_of_github() -> None:
    document = read("# What's a *worker's* `phase`?\n\n## A, B & C\n")

    assert document.anchors == {"whats-a-workers-phase", "a-b--c"}
