"""The examples of docs/guide/python.md, one after the other, against the whole product."""

import asyncio
import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack

GUIDE = Path(__file__).parents[1] / "docs" / "guide" / "python.md"
PRINTED = (
    r"hello\nFAILED 3\n",
    r"\w.*\nCANCELLED\n",
    r"([0-2]\n){3}",
    r"(?s)(\d+ FAILED\n)+\d+\.\d{6}\n.*\n\w+\.\w+\n",
    r"\w+\n(.+ \w+\n){0,5}",
    r"\[0, 1\]\n",
    r"18\n\['data/guide/samples\.csv'\]\n(data/.*\n)+",
    r"\[1\.0, 2\.0, 3\.0\]\n3628800\n",
    r"(?s).*nodess.*\n.*4000000.*\n",
)
"""What each example prints, as a regular expression."""


def examples() -> list[str]:
    """The blocks of Python that can be run without a person."""
    return re.findall(r"^```python\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


async def test_the_examples_of_the_guide_work(
    lab: Stack, ada: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CLUSTERRA_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("CLUSTERRA_URL", lab.gateway_url)
    monkeypatch.setenv("CLUSTERRA_CLUSTER", ada.cluster)
    names: dict[str, Any] = {}

    def run(example: str) -> str:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(example, names)  # the examples are ours
        return printed.getvalue()

    async with ada.api_token("guide") as token:
        monkeypatch.setenv("CLUSTERRA_TOKEN", token)
        for example, expected in zip(examples(), PRINTED, strict=True):
            async with asyncio.timeout(300):
                printed = await asyncio.to_thread(run, example)
            assert re.fullmatch(expected, printed), (example, printed)
    names["client"].close()
