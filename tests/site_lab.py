"""The lab of a site: GPUs, licences, partitions, and a Slurm that enforces the limits of associations."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from gpu_shapes import catalogue_with_gpus
from job_site import ACCOUNTING, LIMITS, member

SITE_POLICY = ScalingPolicy(idle_seconds=1.0, max_workers=14)
"""A test that needs another policy sets this one again."""
USERS = ("bob", "ada", "grace")
"""Users, besides alice, with associations with all accounts and QOS. Others can submit nothing."""


@asynccontextmanager
async def site(folder: Path) -> AsyncIterator[Stack]:
    """Run the lab until the block ends."""
    shapes = catalogue_with_gpus(folder)
    options = LabOptions(SITE_POLICY, settings=LIMITS, catalogue=shapes, accounting_enforced=True)
    async with stack(folder / "lab", options) as lab:
        for change in (*ACCOUNTING, *map(member, USERS)):
            await accounting(lab, *change.split())
        yield lab


async def accounting(lab: Stack, *argv: str) -> str:
    """Run a command of sacctmgr as root, and return what it printed."""
    done = await lab.slurm.run("sacctmgr", "--immediate", "--noheader", "--parsable2", *argv)
    assert done.returncode == 0, done
    return done.stdout
