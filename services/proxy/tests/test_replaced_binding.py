"""A binding that changes again and again, as by pauses of a cluster: no request meets a cluster that is closed."""

import asyncio

from clusterra_contracts.rpc.slurm_nodes import ListNodes, NodePage
from clusterra_lab.machine.process import until
from clusterra_runtime.nats.registry import put_binding
from clusterra_runtime.nats.rpc import NotServed
from proxy_world import ProxyWorld

CHANGES = 30
REQUESTS = 60
PAUSES_SECONDS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05)
"""Some changes come before the proxy has subscribed for the one before."""


async def test_every_request_is_answered_after_many_changes(proxy: ProxyWorld) -> None:
    binding = proxy.slurm.binding(proxy.ref.cluster)
    for number in range(CHANGES):
        changed = binding.model_copy(update={"state": ("paused", "active")[number % 2], "version": number + 2})
        await put_binding(proxy.client, proxy.ref, changed)
        await asyncio.sleep(PAUSES_SECONDS[number % len(PAUSES_SECONDS)])

    async def answer() -> NodePage | None:
        """None while nobody serves the cluster, as for a moment while its binding changes: the request was not sent."""
        try:
            return await proxy.call("nodes", ListNodes(), NodePage)
        except NotServed:
            return None

    def last_is_known() -> bool:
        return f'"version":{CHANGES + 1}' in proxy.log.read_text()

    await until(last_is_known, seconds=90, what="the last binding", process=proxy.process, every=0.05)
    answers = [
        await until(answer, seconds=90, what="an answer", process=proxy.process, every=0.05) for _ in range(REQUESTS)
    ]
    user = proxy.slurm.new_user()
    submitted = [await proxy.submit(user, hold=True) for _ in range(10)]

    assert len(answers) == REQUESTS
    assert len({each.job_id for each in submitted}) == 10
    assert "Session is closed" not in proxy.log.read_text()
