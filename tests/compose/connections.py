"""Which ports the containers of a Compose project can connect to, tried from inside, by name and by address."""

import json

from composition import Composition

PORTS = {
    "nats": (4222, 8222),
    "dynamodb": (8000,),
    "s3": (4566,),
    "mariadb": (3306,),
    "slurmdbd": (6819,),
    "slurmctld": (6817,),
    "slurmrestd": (6820,),
    "gateway": (8080, 8081, 8082),
    "proxy": (8081,),
    "scaler": (8081,),
    "events": (8081,),
    "edge": (8081, 17001),
}
"""Service -> its ports. `web` and `oidc` have ports from the environment."""

ALLOWED = {
    "edge": {("nats", 4222), ("slurmctld", 6817), ("web", 0)},
    "sackd": {("nats", 4222), ("slurmctld", 6817), ("web", 0)},
    "login": {("nats", 4222), ("slurmctld", 6817), ("web", 0)},
}
"""Service of the edge's network -> what it reaches. 0 is the port from the environment."""

TRY = """
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor
def opens(target):
    try:
        socket.create_connection(target, timeout=2).close()
        return True
    except OSError:
        return False
targets = [tuple(target) for target in json.loads(sys.argv[1])]
with ThreadPoolExecutor(64) as pool:
    print(json.dumps(list(pool.map(opens, targets))))
"""
TRY_IN_BASH = """
for target in "$@"; do
  { timeout 2 bash -c "</dev/tcp/${target%:*}/${target#*:}" && echo true || echo false; } >"/tmp/$target" 2>/dev/null &
done
wait
for target in "$@"; do cat "/tmp/$target"; done
"""


async def reached(composed: Composition, source: str) -> set[tuple[str, int]]:
    """The (service, port) that a container of `source` can connect to, by name or by any address."""
    ports = {
        **PORTS,
        "web": (int(composed.environment["CLUSTERRA_PORT"]),),
        "oidc": (int(composed.environment["OIDC_PORT"]),),
    }
    central, edge = await composed.addresses("central"), await composed.addresses("edge")
    targets = [
        (service, port, host)
        for service, numbers in ports.items()
        for port in numbers
        for host in {service, central.get(service, service), edge.get(service, service)}
    ]
    pairs = [(host, port) for _, port, host in targets]
    if source in ("login", "sackd"):
        shown = await composed.exec(
            source, "bash", "-c", TRY_IN_BASH, "try", *(f"{host}:{port}" for host, port in pairs)
        )
        answers = [line == "true" for line in shown.split()]
    else:
        answers = json.loads(await composed.exec(source, "python3", "-c", TRY, json.dumps(pairs)))
    published = (*ports["web"], *ports["oidc"])
    return {
        (service, 0 if port in published else port)
        for (service, port, _), answer in zip(targets, answers, strict=True)
        if answer
    }
