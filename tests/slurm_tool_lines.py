"""What programs around Slurm send, and what they read of the answer, of Slurm's own command and of ours.

`{finished}`, `{failed}`, `{running}`, `{array}` and `{dependent}` are ids of jobs, `{user}` is their owner. The
patterns are those with which the programs read the output. What a program needs must be found, unless it is `unread`.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class ToolLine:
    """A command line of a program."""

    tool: str
    line: str
    """Separated by blanks; `~` stands for a blank within a word."""
    reads: str = r"(?m)^.*$"
    unread: bool = False
    """Whether the program needs only the exit code, or accepts an empty answer."""

    def argv(self, names: dict[str, str]) -> tuple[str, ...]:
        """The words of the command."""
        return tuple(word.format_map(names).replace("~", " ") for word in self.line.split())


_TWO_WORDS = r"(?m)^(\S+)\s+(\S+)\s*$"
_ROW = r"(?m)^([^|\n]+)\|([^|\n]+)$"

LINES = (
    ToolLine("nextflow", "squeue --noheader -o %i~%t -t all -u {user}", _TWO_WORDS),
    ToolLine("nextflow", "squeue --noheader -o %i~%t -t all -p main -u {user}", _TWO_WORDS),
    ToolLine("nextflow", "squeue --noheader -o %i~%t -t all --only-job-state", _TWO_WORDS),
    ToolLine("nextflow", "scancel 999999 999998_1", unread=True),
    ToolLine("snakemake", "sacctmgr -n -s list user {user} format=account%256", r"\S+"),
    ToolLine("snakemake", "sacctmgr -n -s list user nobody format=account%256", unread=True),
    ToolLine("snakemake", "sshare -U --format Account%256 --noheader", r"\S+"),
    ToolLine("snakemake", "sacct -nu {user} -o Account%256 | tail -1", unread=True),
    ToolLine("snakemake", "sinfo -o %P", r"(?m)^(\S+)\*$"),
    ToolLine(
        "snakemake",
        "sacct -X --parsable2 --clusters all --noheader --format=JobIdRaw,State --starttime now-2days --endtime now"
        " --name finished",
        _ROW,
    ),
    ToolLine("snakemake", "squeue --format=%i|%T --states=all --noheader --name running", _ROW),
    ToolLine("snakemake", "sacct -j {failed}.0 --format=Reason --noheader", unread=True),
    ToolLine("snakemake", "sacct -j {finished} -n -X -o nodelist%-256", r"\S+"),
    ToolLine(
        "snakemake",
        "sacct --name=finished --parsable2 --noheader --format=JobID,JobName,Comment,Elapsed,NNodes,NCPUS,ReqMem",
        r"(?m)^[^|]+\|[^|]*\|[^|]*\|[0-9:-]+\|[0-9]+\|[0-9]+\|\w*$",
    ),
    ToolLine("snakemake profile", "sacct -P -b -j {failed} -n", r"(?m)^(\d+)\|(\w+)\|"),
    ToolLine("snakemake profile", "scontrol -o show job {running}", r"JobState=(\w+)"),
    ToolLine("snakemake profile", "squeue --user={user} --format=%i,%T --state=all", r"(?m)^([^,]+),(\w+)$"),
    ToolLine(
        "submitit",
        "sacct -o JobID,State,NodeList --parsable2 -j {finished} -j {failed} -j {running}",
        r"(?m)^(\S+)\|(\S+)\|(\S*)$",
    ),
    ToolLine("submitit", "sacct -o JobID,State,NodeList --parsable2 -j {finished} -j {failed}", r"(?m)^(\S+)\|(\S+)\|"),
    ToolLine("submitit", "scancel 999999 --signal USR2", unread=True),
    ToolLine("parsl", "sacct -X", r"(?m)^(\d+)\s"),
    ToolLine(
        "parsl",
        "sacct -X --noheader --format=jobid,state%20 --job {finished},{failed},{running}",
        r"(?m)^(\d+)\s+(\w+)",
    ),
    ToolLine("parsl", "squeue --noheader --format=%i~%t --job {running},{dependent}", _TWO_WORDS),
    ToolLine("parsl", "scontrol show hostname n[1-3]"),
    ToolLine("cromwell", "squeue -j {running}", r"(?m)^\s*(\d+)\s"),
    ToolLine("cromwell", "squeue -j 999999", unread=True),
    ToolLine("galaxy", "squeue -a -o %A~%t", _TWO_WORDS),
    ToolLine("galaxy", "squeue -a -o %A~%t -j {running}", _TWO_WORDS),
    ToolLine("galaxy", "sacct -o JobIDRaw,State -P -n -j {failed}", _ROW),
    ToolLine("galaxy", "scontrol -o show job {running}", r"JobState=(\w+)"),
    ToolLine("galaxy", "sacct -n -o state%-32 -j {failed}", r"(?m)^\w+"),
    ToolLine("galaxy", "scontrol -do show job {running}", r" Mem=(\d+) "),
    ToolLine("batchspawner", "squeue -h -j {running} -o %T~%B", r"^(?:RUNNING|COMPLETING)\s+((?:[\w_-]+\.?)+)$"),
    ToolLine("batchspawner", "squeue -h -j {dependent} -o %T~%B", r"^(?:PENDING|CONFIGURING)"),
    ToolLine(
        "toil", "sacct -n -j {finished},{failed} --format JobIDRaw,State,ExitCode -P -S 1970-01-01", r"(?m)^(\d+)\|"
    ),
    ToolLine("toil", "scontrol show job {running}", r"JobState=(\w+)"),
    ToolLine("toil", "sinfo -a -o %P~%G~%l~%p~%c~%m", r"(?m)^(\S+) (\S+) (\S+) (\d+) (\S+) (\S+)$"),
    ToolLine(
        "aiida",
        "squeue --noheader -o %i^^^%t^^^%r^^^%B^^^%u^^^%D^^^%C^^^%R^^^%P^^^%l^^^%S^^^%V^^^%j -u {user}",
        r"(?m)^(?:[^^]*\^\^\^){12}.*$",
    ),
    ToolLine("aiida", "squeue -h -j {running},{running} -o %i", r"\d+"),
    ToolLine(
        "psij", "squeue -O JobArrayID,StateCompact,Reason --noheader -t all -j {running},{failed}", r"(?m)^\d+\s+\w"
    ),
    ToolLine("radical", "scontrol --version", r"slurm\S* (\S+)"),
    ToolLine("radical", "scontrol show nodes", r"CPUTot=([0-9]+)"),
    ToolLine("radical", "sacct --format=JobID,State --parsable2 --noheader --jobs={failed}", _ROW),
    ToolLine("radical", "squeue -h -o %i -u {user}", r"\S+"),
    ToolLine("fireworks", "squeue -o %u -u {user}", r"(?m)^\S+$"),
    ToolLine("airflow", "scontrol --oneliner show job {running}", r"JobId=\d+|JobName=\S+|JobState=\w+|StdOut=\S+"),
    ToolLine("airflow", "squeue --states=all -h --format=%i;%j;%t;%T;%r -a -n finished,running", r"(?m)^(?:[^;]*;){4}"),
    ToolLine(
        "simple_slurm", 'squeue --me -o "%i","%j","%t","%M","%L","%D","%C","%m","%b","%R"', r'(?m)^"([^"]*)","([^"]*)"'
    ),
    ToolLine("batchtools", "squeue --user={user} --states=R,S,CG,RS,SI,SO,ST --noheader --format=%i -r", r"(?m)^\S+$"),
    ToolLine("batchtools", "squeue --user={user} --states=PD,CF,RF,RH,RQ,SE --noheader --format=%i -r", r"(?m)^\S+$"),
    ToolLine("clustermq", "scancel --name nobody-has-this", unread=True),
)

_LOG = "/dev/null"
SUBMITS = (
    ("nextflow", f"#!/bin/bash\n#SBATCH -J nf-align_(1)\n#SBATCH -o {_LOG}\n#SBATCH --no-requeue\n#SBATCH --signal"
     " B:USR2@30\n#SBATCH -c 2\n#SBATCH -t 51:00:00\n#SBATCH --mem 1024M\n#SBATCH -p main\ntrue\n", ""),
    ("nextflow", f"#!/bin/bash\n#SBATCH --array 0-4\n#SBATCH -J nf-a\n#SBATCH -o {_LOG}\n#SBATCH --no-requeue\n"
     "#SBATCH -t 00:01:00\ntrue\n", ""),
    ("dask-jobqueue", f"#!/usr/bin/env bash\n\n#SBATCH -J dask-worker\n#SBATCH -e {_LOG}\n#SBATCH -o {_LOG}\n"
     "#SBATCH -n 1\n#SBATCH --cpus-per-task=2\n#SBATCH --mem=1G\n#SBATCH -t 00:30:00\ntrue\n", ""),
    ("submitit", f"#!/bin/bash\n\n# Parameters\n#SBATCH --cpus-per-task=2\n#SBATCH --error={_LOG}\n#SBATCH"
     f" --job-name=submitit\n#SBATCH --mem=2GB\n#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n#SBATCH"
     f" --open-mode=append\n#SBATCH --output={_LOG}\n#SBATCH --signal=USR2@90\n#SBATCH --time=5\n"
     "#SBATCH --wckey=submitit\n\n# command\nexport SUBMITIT_EXECUTOR=slurm\ntrue\n", ""),
    ("submitit", f"#!/bin/bash\n#SBATCH --array=0-9%3\n#SBATCH --job-name=map\n#SBATCH --output={_LOG}\n"
     "#SBATCH --time=5\ntrue\n", ""),
    ("parsl", f"#!/bin/bash\n\n#SBATCH --job-name=parsl.block\n#SBATCH --output={_LOG}\n#SBATCH --error={_LOG}\n"
     "#SBATCH --nodes=2\n#SBATCH --time=30\n#SBATCH --ntasks-per-node=1\n#SBATCH --exclusive\n"
     "#SBATCH --partition=main\ntrue\n", ""),
    ("cromwell", "#!/bin/sh\ntrue\n",
     f"-J cromwell_1 -D /tmp -o {_LOG} -e {_LOG} -t 60 -p main -c 2 --mem-per-cpu 800"),
    ("miniwdl", "#!/bin/sh\ntrue\n", "--parsable --job-name call-x --ntasks 1 --cpus-per-task 2 --mem 1024M --time 60"),
    ("snakemake", "#!/bin/sh\ntrue\n",
     "--parsable --job-name 0f1e --output /dev/null --comment rule_a_wildcards_b"
     " -p main -t 10 --mem 1000 --ntasks=1 --cpus-per-task=2 -D /tmp"),
    ("galaxy", f"#!/bin/sh\n#SBATCH -o {_LOG}\n#SBATCH -e {_LOG}\n#SBATCH -J g1_tool\n#SBATCH -t 10:00\n#SBATCH -c 2\n"
     "#SBATCH -p main\ntrue\n", ""),
    ("batchspawner", "#!/bin/bash\n#SBATCH --output=/dev/null\n#SBATCH --job-name=spawner-jupyterhub\n#SBATCH"
     " --chdir=/tmp\n#SBATCH --time=1:00:00\n#SBATCH --mem=1G\n#SBATCH --cpus-per-task=1\n\nset -euo pipefail\n"
     "true\n", "--parsable"),
    ("radical", '#!/bin/bash\n#SBATCH -N 1 --ntasks=2\n#SBATCH --cpus-per-task 1\n#SBATCH -J "pilot"\n'
     '#SBATCH -D "/tmp"\n#SBATCH --output "/dev/null"\n#SBATCH --error "/dev/null"\n#SBATCH --time 30\ntrue\n', ""),
    ("simple_slurm", "#!/bin/sh\n\n#SBATCH --job-name          named\n#SBATCH --ntasks            2\n#SBATCH --time"
     "              0-00:10:00\n#SBATCH --output            /dev/null\n\ntrue\n", ""),
    ("aiida", '#!/bin/bash\n#SBATCH --no-requeue\n#SBATCH --job-name="aiida-5"\n#SBATCH --get-user-env\n#SBATCH'
     " --output=_scheduler-stdout.txt\n#SBATCH --error=_scheduler-stderr.txt\n#SBATCH --nodes=1\n#SBATCH"
     " --ntasks-per-node=2\n#SBATCH --time=00:30:00\n#SBATCH --mem=512\ntrue\n", ""),
    ("psij", f'#!/bin/bash\n#SBATCH --job-name="j"\n#SBATCH --nodes=1\n#SBATCH --ntasks=2\n#SBATCH --cpus-per-task=1\n'
     f"#SBATCH --time=10\n#SBATCH -e {_LOG}\n#SBATCH -o {_LOG}\ntrue\n", ""),
)  # fmt: skip
"""Programs, their scripts, and their options."""
