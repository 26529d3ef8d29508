"""The content of oci.conf(5): how a worker runs jobs with `--container`.

slurmstepd calls `container-runtime` as the job's user. Its state is in slurmstepd's own folder of the container (`%m`),
which no other user can write.
"""

_CONTAINER = "%m/crun %n.%j.%s.%t"


def conf(scripts: str) -> str:
    """Return the file's content, for workers that have `container-runtime` in the folder `scripts`."""
    runtime = f"{scripts}/container-runtime"
    return f"""\
# The address and the key of slurmctld do not belong into a container.
EnvExclude="^(SLURM_CONF|SLURM_CONF_SERVER)="
RunTimeEnvExclude="^(SLURM_CONF|SLURM_CONF_SERVER)="
RunTimeRun="{runtime} run {_CONTAINER} %b"
RunTimeQuery="{runtime} query {_CONTAINER}"
RunTimeKill="{runtime} kill {_CONTAINER}"
RunTimeDelete="{runtime} delete {_CONTAINER}"
"""
