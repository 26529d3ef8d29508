"""The reference has all commands, and its manual pages are read by groff without a complaint."""

import shutil
import subprocess

import command_reference
import pytest
from clusterra_cli.slurm_commands.program import COMMANDS
from command_reference import manual_page, page
from command_tree import Entry, Manual, own_manuals, paragraphs
from hypothesis import given
from hypothesis import strategies as st

PAGES = {path.name: text for path, text in command_reference.files().items()}


def groff(text: str) -> str:
    """What groff complains about."""
    if shutil.which("groff") is None:
        pytest.skip("there is no groff")
    command = ["groff", "-man", "-ww", "-Tutf8", "-K", "utf8", "-z"]
    ran = subprocess.run(command, input=text, text=True, capture_output=True, check=True)
    return ran.stderr


def test_every_command_is_there_with_its_options() -> None:
    own = own_manuals()

    assert {"clusterra", "clusterra submit", "clusterra tokens list"} <= {each.name for each in own}
    for each in own:
        assert f"\n## {each.name}\n" in PAGES["clusterra.md"]
        assert each.summary, each.name
        assert any("--help" in option.written for option in each.options), each.name
    for name in COMMANDS:
        assert f"\n## {name}\n" in PAGES["clusterra-slurm.md"]


@pytest.mark.parametrize("name", ["clusterra.1", "clusterra-slurm.1"])
def test_groff_has_no_complaint_about_a_manual_page(name: str) -> None:
    assert groff(PAGES[name]) == ""


_LINE = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=30)


@given(_LINE, _LINE)
def test_no_text_is_a_request_of_roff_or_ends_a_table(written: str, meaning: str) -> None:
    manual = Manual("x y", written, (meaning,), (), (Entry(written, meaning),), (meaning,))

    lines = manual_page("x", meaning, written, [manual]).splitlines()
    table = [line for line in page("x", "", "", [manual]).splitlines() if line.startswith("| `")]

    requests = {".TH", ".SH", ".SS", ".TP", ".B", ".PP", ".br", '.\\"'}
    assert {line.split(" ")[0] for line in lines if line.startswith((".", "'"))} <= requests
    assert all(line.replace("\\|", "").count("|") == 3 for line in table)


def test_kept_lines_stay_lines() -> None:
    assert paragraphs("One\ntwo.\n\n\b\n  a  b\n  c") == ("One two.", "  a  b", "  c")
