"""The binding of a cluster for tests."""

from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.registry import ClusterBinding
from clusterra_contracts.shapes import Catalogue, Shape

SHAPE = Shape(name="general-small", family="general", size="small", vcpu=4, memory_gib=16, usd_per_hour=0.2)
BINDING = ClusterBinding(
    name="Main",
    slurmrestd_url="http://127.0.0.1:6820",
    jwt_key="file:/run/secrets/jwt.key",
    operator=SlurmUser(name="clusterra-operator", uid=2001, gid=2001),
    catalogue=Catalogue(shapes=(SHAPE,)),
)
