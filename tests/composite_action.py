"""Runs the steps of a composite action as GitHub's runner does: each by bash, with variables and a file of outputs."""

import asyncio
import re
from asyncio.subprocess import PIPE, STDOUT
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field

STEP_SECONDS = 300
_EXPRESSION = re.compile(r"\$\{\{\s*([\w.]+)\s*\}\}")


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Input(_Strict):
    """An input of the action."""

    description: str = Field(min_length=1)
    required: bool
    default: str | None = None


class ActionOutput(_Strict):
    """An output of the action: an expression."""

    description: str = Field(min_length=1)
    value: str


class ActionStep(_Strict):
    """A step that runs a script."""

    name: str
    shell: str = Field(pattern="^bash$")
    run: str
    id: str | None = None
    env: dict[str, str] = {}


class Runs(_Strict):
    """The steps."""

    using: str = Field(pattern="^composite$")
    steps: tuple[ActionStep, ...]


class Action(_Strict):
    """What action.yml may have, of the schema of GitHub's."""

    name: str
    description: str
    inputs: dict[str, Input]
    outputs: dict[str, ActionOutput]
    runs: Runs


@dataclass(frozen=True)
class Ended:
    """How an action ended: the exit code of the last step that ran, the log of all steps, and the action's outputs."""

    code: int
    log: str
    outputs: Mapping[str, str]


def read(folder: Path) -> Action:
    """The action of a folder. Raises ValidationError."""
    return Action.model_validate(yaml.safe_load((folder / "action.yml").read_text()))


async def run(
    folder: Path, inputs: Mapping[str, str], workspace: Path, temporary: Path, machine: Mapping[str, str]
) -> Ended:
    """Run an action in a checkout, on a machine with these variables. It ends with the first step that fails."""
    action = read(folder)
    unknown = inputs.keys() - action.inputs.keys()
    missing = {name for name, each in action.inputs.items() if each.required} - inputs.keys()
    assert not unknown | missing, unknown | missing
    values = {f"inputs.{name}": each.default or "" for name, each in action.inputs.items()}
    values |= {f"inputs.{name}": value for name, value in inputs.items()}
    code, log = 0, ""
    for number, step in enumerate(action.runs.steps):
        # What is put into a script is code: inputs come as variables alone.
        assert "${{" not in step.run
        written = temporary / f"outputs-{number}"
        written.touch()
        environment = {
            **machine,
            "RUNNER_TEMP": str(temporary),
            "GITHUB_ACTION_PATH": str(folder),
            "GITHUB_OUTPUT": str(written),
            "GITHUB_WORKSPACE": str(workspace),
            **{name: _evaluated(value, values) for name, value in step.env.items()},
        }
        script = temporary / f"step-{number}.sh"
        script.write_text(step.run)
        process = await asyncio.create_subprocess_exec(
            *("bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)),
            env=environment,
            cwd=workspace,
            stdout=PIPE,
            stderr=STDOUT,
        )
        async with asyncio.timeout(STEP_SECONDS):
            printed, _ = await process.communicate()
        log += printed.decode()
        for line in written.read_text().splitlines():
            name, _, value = line.partition("=")
            values[f"steps.{step.id}.outputs.{name}"] = value
        code = process.returncode or 0
        if code:
            break
    return Ended(code, log, {name: _evaluated(each.value, values) for name, each in action.outputs.items()})


def _evaluated(text: str, values: Mapping[str, str]) -> str:
    """A text with its expressions replaced, once: what an input has is no expression."""
    return _EXPRESSION.sub(lambda found: values.get(found[1], ""), text)
