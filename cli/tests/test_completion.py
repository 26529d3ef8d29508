"""Completion by the shells themselves, with live ids; and by the program where the gateway is away or hostile."""

import asyncio
import os
import re
import shutil
import sys
import time
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from clusterra_cli import completion
from clusterra_cli.completion import known_jobs
from clusterra_lab.machine.ports import free_port
from clusterra_lab.machine.process import until
from command_line import CommandLine
from gateway_world import World
from hypothesis import given
from hypothesis import strategies as st

BASH = """
. {script}
COMP_WORDS=({words}) COMP_CWORD={last} COMP_LINE="{line}" COMP_POINT=${{#COMP_LINE}}
_clusterra_completion clusterra
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
ZSH = """
compdef() {{ :; }}
_arguments() {{ printf '%s\\n' "$@"; }}
. {script}
words=({words}); CURRENT={last}
_clusterra_completion
"""


PATH = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
"""On which `clusterra` is that of this environment."""


async def output_of(*argv: str, variables: dict[str, str], home: Path) -> str:
    """What a program prints. It must print nothing on stderr."""
    environment = {
        "HOME": str(home),
        "CLUSTERRA_CONFIG": str(home / "config.toml"),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        **variables,
        "PATH": PATH,
    }
    process = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=PIPE, env=environment, cwd=home)
    async with asyncio.timeout(90):
        out, err = await process.communicate()
    assert err == b"", err.decode()
    return out.decode()


async def completed(shell: str, template: str, words: list[str], variables: dict[str, str], home: Path) -> str:
    """What a shell offers for the last word, by the script that `clusterra` itself prints."""
    shown = {**variables, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = home / f"completion.{shell}"
    script.write_text(await output_of("clusterra", "--show-completion", shell, variables=shown, home=home))
    last = len(words) - (shell == "bash")
    quoted = " ".join(word or "''" for word in words)
    test = template.format(script=script, words=quoted, last=last, line=" ".join(words))
    return await output_of(shell, "-c", test, variables=variables, home=home)


@pytest.mark.parametrize(("shell", "template"), [("bash", BASH), ("zsh", ZSH)])
async def test_a_shell_offers_commands_and_live_ids(
    shell: str, template: str, world: World, ada: CommandLine, tmp_path: Path
) -> None:
    if shutil.which(shell, path=PATH) is None:
        pytest.skip(f"there is no {shell}")
    templates = (await ada("templates", "--quiet")).out.split()

    commands = await completed(shell, template, ["clusterra", "log"], ada.variables, tmp_path)

    async def offered() -> bool:
        # On a loaded machine the gateway may take longer than a completion waits.
        ids = await completed(shell, template, ["clusterra", "launch", ""], ada.variables, tmp_path)
        return set(templates) <= set(ids.replace('"', " ").split())

    assert {"login", "logout", "logs"} <= set(commands.replace('"', " ").split())
    assert templates
    await until(offered, seconds=90, what=f"{shell} to offer the templates")


async def test_fish_offers_live_ids(world: World, ada: CommandLine, tmp_path: Path) -> None:
    if shutil.which("fish", path=PATH) is None:
        pytest.skip("there is no fish")
    shown = {**ada.variables, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    script = tmp_path / "completion.fish"
    script.write_text(await output_of("clusterra", "--show-completion", "fish", variables=shown, home=tmp_path))
    asked = f"source {script}; complete --do-complete 'clusterra launch '"

    templates = (await ada("templates", "--quiet")).out.split()

    async def offered() -> bool:
        ids = await output_of("fish", "--no-config", "-c", asked, variables=ada.variables, home=tmp_path)
        return set(templates) <= set(ids.split())

    await until(offered, seconds=90, what="fish to offer the templates")


def test_a_gateway_that_is_away_or_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLUSTERRA_TOKEN", "clusterra_a_b_c")
    monkeypatch.setenv("CLUSTERRA_CLUSTER", "main")
    monkeypatch.setenv("CLUSTERRA_URL", f"http://127.0.0.1:{free_port()}")
    began = time.monotonic()

    assert known_jobs("") == []
    monkeypatch.setenv("CLUSTERRA_URL", "no address")
    assert known_jobs("") == []
    # Two waits of a second at most, the rest is for a loaded machine; a request alone would be tried for 30 s.
    assert time.monotonic() - began < 20


@given(st.lists(st.tuples(st.text(), st.text())))
def test_nothing_that_a_shell_could_take_for_code_is_offered(told: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        for name, value in (("URL", "http://127.0.0.1:9"), ("TOKEN", "clusterra_a_b_c"), ("CLUSTER", "main")):
            monkeypatch.setenv(f"CLUSTERRA_{name}", value)

        offered = completion._completed("", lambda _: told)

    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", name) for name, _ in offered)
    assert all(re.fullmatch(r"[\w .,?-]*", text) for _, text in offered)
    assert [name for name, _ in offered] == [name for name, _ in told if re.fullmatch(r"[A-Za-z0-9_.-]{1,200}", name)]
