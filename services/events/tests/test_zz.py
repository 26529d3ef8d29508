import time, psutil
from test_events_process_copy import *
async def test_rate(environment, client, tmp_path):
    ref = ClusterRef(tenant="acme", cluster="rate")
    process = await started(environment, tmp_path)
    t=time.perf_counter()
    pub=EventPublisher(client,"proxy")
    await pub.tell(ref, NodeFact(kind="node.down", node="first"), version="1", time=now())
    await archived(client, 1, process, ref); print("first", time.perf_counter()-t)
    await process.stop(); 
    for i in range(400): await pub.tell(ref, NodeFact(kind="node.down", node=f"n{i}"), version="1", time=now())
    process = await process.again(); t=time.perf_counter(); c=psutil.Process(process.pid).cpu_times()
    await archived(client, 401, process, ref); print("400 in", time.perf_counter()-t, psutil.Process(process.pid).cpu_times(), psutil.Process(process.pid).memory_info().rss/1e6)
    await process.stop()
