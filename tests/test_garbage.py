"""Garbage on every subject is kept in the dead letter stream and changes nothing else."""

from functools import partial

import pytest
from clusterra_contracts.bus import subjects
from clusterra_contracts.bus.topology import DLQ
from clusterra_contracts.identity import ClusterRef, TenantRef
from clusterra_contracts.scale import DesiredState
from clusterra_lab.demo.observer import observe
from clusterra_lab.machine.process import until
from clusterra_lab.parts.patience import patiently
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import Stack
from clusterra_runtime.nats import bus
from nats.js.errors import NotFoundError


def every_subject(ref: ClusterRef) -> list[str]:
    return [
        subjects.job_pending(ref),
        subjects.scale_desired(ref),
        subjects.heartbeat(ref),
        subjects.event(ref, "job.running"),
        *(subjects.slurm(ref, operation) for operation in ("submit", "get", "list", "cancel", "drain", "delete-node")),
        subjects.edge(ref, "log"),
        subjects.history(ref),
        subjects.scaler(ref, "why"),
        subjects.usage(TenantRef(tenant=ref.tenant)),
    ]


def stored(subject: str, ref: ClusterRef) -> set[str]:
    """The possible subjects of a dead letter: by the published subject, or by the one that the stream stores."""
    names = {subject}
    if subject == subjects.job_pending(ref):
        names.add(subjects.job_sharded(ref))
    return {subjects.dead_letter(name) for name in names}


async def dead_letter(lab: Stack, subject: str) -> bytes | None:
    """The last dead letter on a subject."""
    try:
        return (await lab.bus.jetstream().get_last_msg(DLQ.name, subject)).data
    except NotFoundError:
        return None


@pytest.mark.parametrize("body", [b"\xff\x00 no message", b'[{"generation": -1}]'], ids=["bytes", "json"])
async def test_garbage_goes_to_the_dead_letters_and_changes_nothing(lab: Stack, ada: User, body: bytes) -> None:
    before = await bus.last(lab.bus, "SCALE", subjects.scale_desired(lab.cluster), DesiredState)
    for subject in every_subject(lab.cluster):
        await lab.bus.publish(subject, body, headers={"content-type": "application/json"})
    await lab.bus.flush()

    for subject in every_subject(lab.cluster):

        async def kept(subject: str = subject) -> bool:
            return body in [await dead_letter(lab, name) for name in stored(subject, lab.cluster)]

        await until(kept, seconds=120, every=0.1, what=f"the dead letter of {subject}")

    # Only now, because an observer would send the garbage to the dead letters, too.
    async with observe(lab.bus, lab.cluster) as observer:
        after = {"name": "after", "memory_per_cpu": 2048}
        submit = partial(ada.submit, "#!/bin/bash\necho still here\n", after, key=f"after-{body.hex()}")

        job = await patiently(submit)
        await until(
            lambda: (job.job_id, "job.completed") in observer.job_events,
            seconds=120,
            what="a job after the garbage to run",
        )
        assert await ada.output(job.job_id) == "still here\n"
        assert all(service.alive for service in lab.services.values())
        await until(lambda: observer.workers == {}, seconds=120, what="an empty fleet")

        # The outbox repeats some decisions after later ones; an edge ignores them.
        last = before[0].order if before is not None else (0, 0)
        new = [order for order in dict.fromkeys(decision.order for decision in observer.decisions) if order > last]

        assert new
        assert new == sorted(new)
