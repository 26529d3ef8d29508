"""Our squeue, sacct, sinfo, scontrol, scancel and sbatch beside Slurm's own: the same text, exit codes and jobs."""

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from clusterra_contracts.identity import SlurmUser
from clusterra_contracts.job_states import ENDED
from clusterra_contracts.registry import ScalingPolicy
from clusterra_lab.machine.process import until
from clusterra_lab.parts.user import User
from clusterra_lab.stack.stack import LabOptions, Stack, stack
from command_line import Ran
from gates import closed_gate
from slurm_command_pairs import Commands
from slurm_records import record, same_fields
from slurm_tool_lines import LINES, SUBMITS, ToolLine

pytestmark = pytest.mark.usefixtures("queue")

_ALL = (
    "%i|%A|%B|%c|%C|%d|%D|%E|%f|%F|%g|%G|%h|%H|%I|%j|%J|%k|%K|%l|%m|%n|%N|%o|%O|%P|%q|%Q|%r|%R|%t|%T|%u|%U|%v|%V|%w|%W"
)
_FIELDS = (
    "jobid,jobidraw,jobname,state,exitcode,derivedexitcode,nodelist,nnodes,ncpus,alloccpus,reqcpus,account,partition,"
    "comment,reason,reqmem,submit,start,end,eligible,timelimit,timelimitraw,user,uid,group,qos,priority,workdir,"
    "alloctres,reqtres,submitline,constraints,wckey,planned,suspended,flags,ntasks,allocnodes,layout"
)
FORMATS = (
    *(("squeue", "-t", "all", "-o", each) for each in (
        "%i", "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R", "%i,%T",
        "%A %t", "%i^^^%t^^^%r^^^%B", "%8i|%5t|%20R", "%.3j %3j|",
        "%i %k", "%i %Z %o %E", "%l %L %M %S %V %e", "%c %C %d %D %m %b", "%f %n %x %v %w %W", "%H %I %J %z",
    )),
    *(("squeue", "-t", "all", "-O", each) for each in (
        "JobArrayID,StateCompact,Reason", "jobid:6,name:.30,state", "AccrueTime,AllocNodes,AllocSID,AssocId,BatchFlag",
        "JobId,exit_code,DerivedEC,MaxCPUs,MaxNodes,NumTasks,CPUsPerTask,cpus-per-task",
        "JobId,StdOut:60,StdErr,StdIn,tres-alloc:50,tres-per-job,WorkDir:30",
        "JobId,NTPerCore,NTPerNode,NTPerSocket,NTPerBoard,Sockets,Cores,Threads,SPerBoard,Profile,Reboot,Requeue",
        "JobId,Cluster,MinTime,DelayBoot,ResizeTime,PreemptTime,Exclusive,OverSubscribe,HetJobId,Wait4Switch,SegmentSize",
    )),
    *(("sacct", "-X", *each) for each in (
        ("-P", "-o", "jobid,jobidraw,jobname,state,exitcode"), ("-o", "jobid%5,jobname%-10,state%20"),
        ("-n", "-o", "state%-32"), ("-p", "-o", "user,uid,group,account,cluster"), ("-P", "-o", "start,end,submit"),
        ("-o", "elapsed,timelimit,timelimitraw"),
        ("-P", "-o", "reqmem,reqcpus,reqnodes,alloctres%40"),
        ("-P", "--delimiter", "^^^", "-o", "jobid,nodelist,partition,qos,priority"), ("-o", "jobid,"),
    )),
    *(("sacct", *each) for each in (("-P", "-o", "jobid,ntasks,layout,state"), ("-n", "-o", "jobid%20,jobname%20"))),
    *(("sinfo", *each) for each in (
        ("-o", "%P %a %l %D %t %N"), ("-h", "-o", "%N|%c|%m|%G|%f"), ("-N", "-o", "%N %P %T"), ("-o", "%.5P%.3a|%20N"),
        ("-O", "nodelist:30,partition,available,time"), ("-h", "-O", "nodes:5,cpus:4,memory,weight"),
        ("-o", "%R %F %A"),
        ("-h", "-o", "%P|%p|%s|%g|%h|%r|%L"),
    )),
    ("scontrol", "-o", "show", "node"),
    ("scontrol", "-d", "show", "job"),
    ("scontrol", "-o", "show", "partition"),
)  # fmt: skip
"""Format strings, each with the jobs of the file in the queue and in accounting."""
EQUAL = (
    *FORMATS,
    ("squeue", "--helpformat"),
    ("squeue", "--helpFormat"),
    ("squeue", "--helpstate"),
    ("squeue", "--start"),
    ("squeue", "--start", "-r", "-h"),
    ("squeue", "-S", "S", "-t", "all", "-o", "%i %S"),
    ("squeue", "-S", "-S", "-t", "all", "-o", "%i"),
    ("squeue", "-w", "nowhere"),
    ("squeue", "-L", "nothing"),
    ("squeue", "--notme"),
    ("squeue", "--running-over", "10000", "-h"),
    ("squeue", "--running-under", "1-0", "-h", "-o", "%i"),
    ("squeue", "--array-unique"),
    ("sacctmgr", "foo"),
    ("sacctmgr", "--foo"),
    ("sacctmgr", "-s", "list", "user", "nobody", "format=account%20"),
    ("sshare", "--foo"),
    ("sshare", "-U", "-o", "Account%30,User%-12"),
    ("squeue",),
    ("squeue", "-h"),
    ("squeue", "-l", "-h"),
    ("squeue", "-t", "all"),
    ("squeue", "-t", "all", "-r"),
    ("squeue", "-t", "PD,R", "--me"),
    ("squeue", "-t", "all", "-o", _ALL),
    ("squeue", "-t", "all", "-o", "%x|%X|%y|%Y|%z|%Z|%b|%a|%s|%e|%S|%p"),
    ("squeue", "--noheader", "-o", "%i %t", "-t", "all", "--me"),
    ("squeue", "-a", "-o", "%A %t"),
    ("squeue", "-h", "-o", "%T %B"),
    ("squeue", "--me", "-o", '"%i","%j","%t","%M","%L","%D","%C","%m","%b","%R"'),
    ("squeue", "--states=all", "-h", "--format=%i;%j;%t;%T;%r", "-a", "-n", "finished,failed"),
    ("squeue", "-h", "-t", "PD", "-o", "%.20i^^^%8j<>%.5u%3t%5D%q"),
    ("squeue", "-t", "all", "-O", "JobArrayID,StateCompact,Reason"),
    ("squeue", "-O", "JobID:5,Name:.10,State:10xx,NodeList,UserName:.8,TimeLimit"),
    ("squeue", "-S", "i", "-t", "all", "-o", "%i %j"),
    ("squeue", "-S", "-i", "-h", "-o", "%i %Q"),
    ("squeue", "-j", "999999"),
    ("squeue", "-j", "999999,999998", "-h"),
    ("squeue", "-j", "abc"),
    ("squeue", "-t", "foo"),
    ("squeue", "--foo"),
    ("squeue", "-o"),
    ("sacct",),
    ("sacct", "-X"),
    ("sacct", "-P"),
    ("sacct", "-p", "-X"),
    ("sacct", "-b"),
    ("sacct", "-n", "-X", "-o", "jobid,state%20"),
    ("sacct", "-X", "--noheader", "--format=jobid%-15,jobname%4,nodelist%-256"),
    ("sacct", "-P", "-X", "-o", _FIELDS),
    ("sacct", "-P", "-o", _FIELDS),
    ("sacct", "-X", "--parsable2", "--noheader", "--format=JobIdRaw,State", "--name", "finished"),
    ("sacct", "-n", "-o", "Account%256"),
    ("sacct", "-j", "999999"),
    ("sacct", "-o", "foo"),
    ("sacct", "--helpformat"),
    ("sacct", "--foo"),
    ("sacct", "a"),
    ("sinfo",),
    ("sinfo", "-h", "-N"),
    ("sinfo", "-h", "-N", "-o", "%N %t %T %C"),
    ("sinfo", "-s"),
    ("sinfo", "-o", "%P"),
    ("sinfo", "-a", "-o", "%P %G %l %p %c %m"),
    ("sinfo", "-o", "%P|%a|%D|%t|%T|%N|%C|%f|%F|%A|%z|%X|%Y|%Z|%w|%E|%g|%h|%L|%r|%s|%S|%d|%I|%v|%b|%B|%o|%R"),
    ("sinfo", "-O", "partition,nodelist,statecompact"),
    ("scontrol", "show", "job"),
    ("scontrol", "-o", "show", "job"),
    ("scontrol", "show", "job", "999999"),
    ("scontrol", "show", "partition"),
    ("scontrol", "show", "hostnames", "n[1-3,07-09],b"),
    ("scontrol", "show", "hostname", "a[1-2]b"),
    ("scontrol", "show", "hostlist", "n1,n2,n3,b"),
    ("scontrol", "show", "foo"),
    ("scontrol", "foo"),
    ("scontrol", "requeue", "999999"),
    ("scontrol", "hold", "999999"),
    ("scontrol", "update", "JobId=999999", "TimeLimit=5"),
    ("scontrol", "update", "JobId=999999", "Foo=5"),
    ("scancel", "999999"),
    ("scancel", "-v", "999999"),
    ("scancel", "--signal", "USR1", "999999"),
    ("scancel",),
    ("scancel", "abc"),
    ("scancel", "--foo"),
    ("sbatch", "--foo", "x"),
    ("sbatch", "--wrap", "true", "x"),
    ("sbatch", "/nonexistent"),
    ("sbatch", "-d", "afterok:99999", "--wrap", "true"),
    ("sbatch", "-a", "foo", "--wrap", "true"),
)
"""Command lines whose output, errors and exit code must be those of Slurm."""


@pytest.fixture(scope="module")
async def lab(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A lab of this file's own: jobs of other files would end while two lists of them are compared."""
    options = LabOptions(ScalingPolicy(idle_seconds=2.0), environment={"CLUSTERRA_COST_NOTE_SECONDS": "1"})
    async with stack(tmp_path_factory.mktemp("lab"), options) as running:
        yield running


@pytest.fixture
async def commands(lab: Stack, ada: User, tmp_path: Path) -> AsyncIterator[Commands]:
    owner = SlurmUser(name=ada.profile.name, uid=ada.profile.uid, gid=ada.profile.uid)
    async with ada.api_token("slurm-commands") as token:
        variables = {"CLUSTERRA_URL": lab.gateway_url, "CLUSTERRA_TOKEN": token, "CLUSTERRA_CLUSTER": ada.cluster}
        variables["CLUSTERRA_CONFIG"] = str(tmp_path / "config.toml")
        yield Commands(lab.slurm, owner, variables)


@pytest.fixture(scope="module")
async def queue(lab: Stack) -> AsyncIterator[dict[str, str]]:
    """Jobs of ada in several states, by their names."""
    async with lab.user("ada@acme.example") as ada:
        jobs = {
            name: (await ada.submit(f"#!/bin/sh\n{lines}\n", {"name": name})).job_id
            for name, lines in (
                ("finished", "#SBATCH -t 5\nhostname\nsrun true"),
                ("failed", "#SBATCH -t 5 -c 2\nexit 3"),
                ("running", "#SBATCH -n 2 --mem=300 -t 1:00:00\nsleep 3000"),
                ("held-with-a-long-name", "#SBATCH -H -c 2 -C compute\nsleep 600"),
                ("array", "#SBATCH -a 1-5%2 -H -t 1-2\nsleep 600"),
            )
        }
        dependent = f"#!/bin/sh\n#SBATCH -d afterok:{jobs['running']}\ntrue\n"
        jobs["dependent"] = (await ada.submit(dependent, {"name": "dependent"})).job_id

        async def settled() -> bool:
            states = [(await ada.job(jobs[name])).state for name in ("finished", "failed", "running")]
            return states[0] in ENDED and states[1] in ENDED and states[2] == "RUNNING"

        await until(settled, seconds=180, every=0.2, what="two ended jobs and a running one")
        yield jobs
        for job_id in jobs.values():
            await ada.cancel(job_id)


async def test_output_errors_and_exit_codes_are_those_of_slurm(commands: Commands) -> None:
    # The first test: others cancel jobs, and how many ended ones Slurm lists in which order is its own affair.
    different: dict[str, tuple[Ran, Ran]] = {}

    async def compare(argv: tuple[str, ...]) -> None:
        real = own = Ran(0, "", "")
        # Between the two commands a second may pass, and the gateway's list may be some seconds old. On a loaded
        # machine a second always passes: the last tries do not compare run times.
        for attempt in range(12):
            real, own = await commands.slurms(*argv), await commands.ours(*argv)
            timeless = attempt >= 8
            if (real.code, steady(real.out, timeless=timeless), real.err.strip()) == (
                *(own.code, steady(own.out, timeless=timeless), own.err.strip()),
            ):
                return
            await asyncio.sleep(0.5)
        different[" ".join(argv)] = (real, own)

    for argv in EQUAL:
        await compare(argv)

    assert not different, "\n".join(f"{line}\n{real}\n{own}" for line, (real, own) in different.items())


def steady(output: str, *, timeless: bool) -> str:
    """The output without the costs, which the cluster notes in running jobs each second, and without run times.

    And without the nodes of `scontrol -d` in ended jobs: slurmctld forgets them with the node, which is no change of
    the job, so the gateway's list may still have them.
    """
    output = re.sub(r"cost_usd=[0-9.]+", "cost_usd=N", output)
    output = "\n\n".join(
        each if "JobState=RUNNING" in each else re.sub(r"(?m)^ +(JOB_GRES|Nodes)=.*\n", "", each)
        for each in output.split("\n\n")
    )
    return re.sub(r"\b(0:|00:0|0)?[0-9]:[0-9]{2}\b", "M:SS", output) if timeless else output


@pytest.mark.parametrize("tool", sorted({each.tool for each in LINES}))
async def test_a_program_reads_the_same_from_both(
    commands: Commands, ada: User, queue: dict[str, str], tool: str
) -> None:
    names = {**queue, "user": ada.profile.name}
    different: dict[str, object] = {}

    async def read(line: ToolLine, ran: Ran) -> tuple[int, list[object], bool]:
        return ran.code, re.findall(line.reads, ran.out), bool(ran.err)

    for line in (each for each in LINES if each.tool == tool):
        argv = line.argv(names)
        for _ in range(8):
            real, own = await commands.slurms(*argv), await commands.ours(*argv)
            expected, found = await read(line, real), await read(line, own)
            if expected == found and (found[1] or line.unread):
                break
            await asyncio.sleep(0.5)
        else:
            different[line.line] = (real, own)
    assert not different, "\n".join(f"{line}\n{both}" for line, both in different.items())


@pytest.mark.parametrize(("tool", "script", "options"), SUBMITS)
async def test_the_script_of_a_program_makes_the_same_job(
    ada: User, commands: Commands, tool: str, script: str, options: str
) -> None:
    argv = ("sbatch", "-H", *options.split())
    real, own = await commands.slurms(*argv, stdin=script), await commands.ours(*argv, stdin=script)

    assert (own.code, own.err) == (0, ""), tool
    assert re.sub(r"\d+", "N", own.out) == re.sub(r"\d+", "N", real.out)
    await equal_records(ada, commands, own.out.split()[-1], real.out.split()[-1])


SCRIPTS = (
    ("#!/bin/sh\n#SBATCH --job-name=one --time=0:86400\n#SBATCH --mem 3072M\ntrue\n", ("--hold",)),
    ("#!/bin/sh\n#SBATCH -t 51:00:00 -c 2 --no-requeue\ntrue\n", ("-H", "-c", "4", "-J", "two", "--nice=5")),
    ("#!/bin/sh\n#SBATCH -n4 --mem-per-cpu=100\ntrue\n", ("-H", "--mem-per-cpu=512", "-N1", "--signal", "B:USR2@30")),
    ("#!/bin/sh\n#SBATCH --array=0-4\ntrue\n", ("-H", "-a", "1-9:2%3", "-t5", "--begin=2035-01-01T00:00")),
    ("#!/bin/sh\ntrue\n", ("-H", "--exclusive", "-C", "compute", "--open-mode=append", "-e", "/dev/null")),
)


@pytest.mark.parametrize(("script", "options"), SCRIPTS)
async def test_a_script_makes_the_same_job_as_with_slurms_own_sbatch(
    lab: Stack, ada: User, commands: Commands, script: str, options: tuple[str, ...]
) -> None:
    own = await commands.ours("sbatch", "--parsable", *options, stdin=script)
    real = await lab.slurm.sbatch(commands.owner, script, *options)

    assert (own.code, own.err) == (0, "")
    await equal_records(ada, commands, own.out.strip(), real)


async def equal_records(ada: User, commands: Commands, own: str, real: str) -> None:
    """Assert that two jobs have the same fields, and cancel them."""
    records = [await record(ada, job_id) for job_id in (own, real)]
    for job_id in (own, real):
        await commands.ours("scancel", job_id)
    assert same_fields(records[0]) == same_fields(records[1])


async def test_a_job_is_known_to_all_commands_as_soon_as_it_is_submitted(commands: Commands) -> None:
    submitted = await commands.ours("sbatch", "-H", "--wrap", "true")
    job_id = submitted.out.split()[-1]

    listed = await commands.ours("squeue", "-h", "-j", job_id, "-o", "%i %t %j")
    several = await commands.ours("squeue", "-h", "-j", f"{job_id},{job_id}", "-o", "%i")
    accounted = await commands.ours("sacct", "-X", "-n", "-P", "-j", job_id, "-o", "jobid,state")
    shown = await commands.ours("scontrol", "-o", "show", "job", job_id)

    assert submitted == Ran(0, f"Submitted batch job {job_id}\n", "")
    assert listed == Ran(0, f"{job_id} PD wrap\n", "")
    assert several == Ran(0, f"{job_id}\n", "")
    assert accounted == Ran(0, f"{job_id}|PENDING\n", "")
    assert f"JobId={job_id} JobName=wrap" in shown.out
    assert await commands.ours("scancel", job_id) == Ran(0, "", "")


async def test_the_name_of_the_account_on_this_machine_means_the_caller(commands: Commands) -> None:
    lines = (("squeue", "-h", "-t", "all", "-o", "%i", "-u"), ("sacct", "-X", "-n", "-o", "jobid", "-u"))
    for argv in lines:
        own = await commands.ours(*argv, commands.owner.name)
        account = await commands.ours(*argv, "visitor", USER="visitor")
        other = await commands.ours(*argv, "stranger", USER="visitor")

        assert account == own
        assert own.out
        assert (other.code, other.out) == (0, "")


async def test_scontrol_changes_holds_and_releases(ada: User, commands: Commands) -> None:
    job_id = (
        await commands.ours("sbatch", "--parsable", "-H", "-t", "9", "--begin=now+1hour", stdin=_TRUE)
    ).out.strip()

    assert await commands.ours("scontrol", "update", f"JobId={job_id}", "TimeLimit=1:30:00", "Name=other") == _DONE
    assert await commands.ours("scontrol", "release", job_id) == _DONE
    released = await record(ada, job_id)
    assert await commands.ours("scontrol", "hold", job_id) == _DONE
    held = await record(ada, job_id)

    assert (released["time_limit"]["number"], released["name"], released["hold"]) == (90, "other", False)
    assert held["state_reason"] == "JobHeldUser"
    assert await commands.ours("scancel", "-n", "other") == _DONE
    assert (await record(ada, job_id))["job_state"] == ["CANCELLED"]


async def test_sbatch_waits_for_the_exit_code_and_sends_the_values_of_named_variables(
    lab: Stack, commands: Commands
) -> None:
    path = f"{lab.slurm.shared_path}/exported.out"
    script = f'#!/bin/sh\n#SBATCH --export=COLOUR --get-user-env=L -o {path}\necho "$COLOUR $1"\nexit 7\n'

    ended = await commands.ours("sbatch", "--wait", "--parsable", "/dev/stdin", "-x", stdin=script, COLOUR="blue")

    assert (ended.code, ended.err) == (7, "")
    assert (lab.slurm.shared_dir / "exported.out").read_text() == "blue -x\n"


async def test_a_script_may_say_that_sbatch_waits_and_prints_the_id_alone(commands: Commands) -> None:
    script = "#!/bin/sh\n#SBATCH -o /dev/null -t 5 --wait\n#SBATCH --parsable\nexit 3\n"

    real, own = await commands.slurms("sbatch", stdin=script), await commands.ours("sbatch", stdin=script)

    assert (own.code, own.err) == (real.code, real.err) == (3, "")
    assert own.out.strip().isdecimal()
    assert real.out.strip().isdecimal()


async def test_srun_shows_both_outputs_and_ends_with_the_exit_code(commands: Commands) -> None:
    ran = await commands.ours("srun", "-n1", "-c", "1", "-t", "5", "sh", "-c", "echo out; echo err >&2; exit 7")

    assert (ran.code, ran.out) == (7, "out\n"), ran
    lines = ran.err.splitlines()
    assert lines[0].endswith("queued and waiting for resources")
    assert "err" in lines[1:]


async def test_srun_is_live_and_an_interrupt_cancels_the_job(lab: Stack, ada: User, commands: Commands) -> None:
    gate = closed_gate(lab)
    process = await commands.start("srun", "-t", "5", "sh", "-c", f"echo begun; {gate.wait}")
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        async with asyncio.timeout(120):
            queued = (await process.stderr.readline()).decode()
            begun = await process.stdout.readline()
            process.send_signal(signal.SIGINT)
            code = await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
    job_id = re.findall(r"job (\d+) queued", queued)[0]

    assert (begun, code) == (b"begun\n", 130)
    await until(lambda: _is_cancelled(ada, job_id), seconds=90, every=0.5, what="the cancelled job")


async def _is_cancelled(ada: User, job_id: str) -> bool:
    return (await ada.job(job_id)).state == "CANCELLED"


async def test_in_a_job_srun_is_slurms_own(tmp_path: Path, commands: Commands) -> None:
    own = tmp_path / "srun"
    own.write_text('#!/bin/sh\necho "own $*"\nexit 5\n')
    own.chmod(0o755)

    inside = await commands.ours("srun", "--ntasks", "1", "-u", "x", SLURM_JOB_ID="1", PATH=f"{tmp_path}:/usr/bin:/bin")
    without = await commands.ours("srun", "x", SLURM_JOB_ID="1", PATH=str(tmp_path / "none"))

    assert inside == Ran(5, "own --ntasks 1 -u x\n", "")
    assert without.code == 1
    assert "PATH has none" in without.err


_TRUE = "#!/bin/sh\ntrue\n"
_DONE = Ran(0, "", "")
