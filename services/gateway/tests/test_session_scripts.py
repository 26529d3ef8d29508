"""The scripts of the catalogue's sessions tell the port of their server: real bash, stand-ins for the servers."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment

OWNER, ANOTHER = 20001, 20002
TEMPLATES = Path(__file__).parents[3] / "catalog" / "templates"
STAND_IN = """#!/bin/sh
[ -z "$JUPYTER_RUNTIME_DIR" ] || echo '{"port": 8888}' >"$JUPYTER_RUNTIME_DIR/jpserver-1.json"
echo HTTP server listening on
for try in $(seq 100); do
  [ ! -s "$CLUSTERRA_SESSION_DIR/job_42.session" ] || break
  sleep 0.1
done
stat --format=%a "$CLUSTERRA_SESSION_DIR/job_42.session" >"$HOME/seen"
cat "$CLUSTERRA_SESSION_DIR/job_42.session" >>"$HOME/seen"
"""
"""Serves until it has seen the session file, and keeps what it says."""

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="files of several users need root")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder where everybody may make files, and a home in it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        (folder / "home").mkdir()
        os.chown(folder / "home", OWNER, OWNER)
        yield folder


@pytest.mark.parametrize("template", ["jupyter", "vscode"])
def test_nobody_keeps_a_session_from_telling_its_port(shared: Path, template: str) -> None:
    script = Environment().from_string(yaml.safe_load((TEMPLATES / f"{template}.yaml").read_text())["script"])
    rendered = script.render(params={"listen": "127.0.0.1", "port": 8888}, inputs={"folder": "/tmp"})
    for program in ("jupyter", "code-server"):
        (shared / program).write_text(STAND_IN)
        (shared / program).chmod(0o755)
    (shared / "job_42.session.part").touch()
    os.chown(shared / "job_42.session.part", ANOTHER, ANOTHER)
    names = {"HOME": f"{shared}/home", "CLUSTERRA_SESSION_DIR": str(shared), "SLURM_JOB_ID": "42"}

    subprocess.run(
        ["bash", "-c", rendered],
        check=False,
        env=names | {"PATH": f"{shared}:/usr/bin:/bin"},
        cwd=shared,
        timeout=60,
        user=OWNER,
        group=OWNER,
        extra_groups=[],
    )

    mode, said = (shared / "home" / "seen").read_text().split("\n", 1)
    assert (mode, yaml.safe_load(said)["port"] >= 8888) == ("644", True)
