"""The bar of a copy: on a terminal alone, one line that fits, and true at its end."""

import io
import re
import sys

import pytest
from clusterra.files.progress import SILENT
from clusterra_cli.commands.files.progress import shown_progress


class Terminal(io.StringIO):
    """What a terminal would get."""

    def isatty(self) -> bool:
        return True


def test_a_bar_is_drawn_in_one_line_of_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)

    with shown_progress(quiet=False) as progress:
        progress.planned(2, 3 * 1024 * 1024)
        for _ in range(3):
            progress.transferred(1024 * 1024)
        progress.transferred(-1024 * 1024)
        progress.transferred(1024 * 1024)
        progress.finished("data/x")

    *_, last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.getvalue()).strip().splitlines()
    assert "━" * 24 in last
    assert "3.0/3.0 MiB" in last
    assert "1/2 files" in last
    assert len(last) <= 80


@pytest.mark.parametrize(("stream", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_elsewhere_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool) -> None:
    monkeypatch.setattr(sys, "stderr", stream)

    with shown_progress(quiet=quiet) as progress:
        assert progress is SILENT

    assert stream.getvalue() == ""
