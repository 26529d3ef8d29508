"""Draws lines of options as sbatch(1) describes them: options, forms of their values, quotes and comments.

Most values are right, and some are wrong in a way that users write them.
"""

from random import Random

_COUNT = ("1", "2", "3", "+2", "02", " 2", "0", "-1", "2x", "", "1.5")
_TIME = (
    *("5", "1:30", "1:2:3", "1-", "1-2", "1-2:3", "0-0:10:30", "0", "-1", "UNLIMITED", "infinite", "60"),
    *("5:", ":5", "1-:", "1:2:3:4", "x", "", "1h", "1-2-3"),
)
_DATE = (
    *("12/31/49", "123149", "12.31.49", "2049-12-31", "2049-12-31T12:00:00", "2049-12-31T12:00", "12/31/49T6:30PM"),
    *("16:00 12/30/49", "noon 12/31/49", "12/31/2049", "2049-1-31", "25:00", "tomorrows", "uts2500000000", "uts5", ""),
)
_SIZE = ("100", "100M", "1g", "100000K", "2GB", "1T", "0", "", "-1", "1.5G", "5P", "5 M")
_NODES = ("1", "2", "1-2", "2-1", "-2", "2-", "1,2", "1-2:1", "2-4:2", " 2 ", "x", "", "1k", "2:1", "1-", "2-2")
_GPUS = ("1", "2", "h100:1", "h100", "h100:1,a100:1", "", "x:1k", "2080ti:1")
_GRES = ("gpu", "gpu:1", "gpu:h100:1", "gpu:h100", "none", "", "gpu:1k", "gres/gpu:1", "foo:1", "gpu=1")
_LAYOUT = (
    *("block", "cyclic", "block:cyclic", "cyclic:block", "block:block:cyclic", "plane=2", "pack", "block,nopack"),
    *("plane", "", "x", "*", "*:block", "block:x", "BLOCK"),
)

VALUES: dict[str, tuple[str | None, ...]] = {
    "account": ("lab", ""),
    "array": ("1-3", "0-4:2", "1,3%1", "x", "3-1"),
    "begin": _DATE,
    "chdir": ("/tmp", "/mnt/efs"),
    "constraint": ("general", "general&memory", "[general|memory]", "foo"),
    "contiguous": (None,),
    "cpus-per-gpu": ("1", "2", "0"),
    "cpus-per-task": _COUNT,
    "deadline": _DATE,
    "dependency": ("singleton", "", "afterok:999999", "foo"),
    "distribution": _LAYOUT,
    "exclude": ("w1", "", "w[1-2]"),
    "exclusive": (None, "user", "mcs", "topo", "", "x", "USER", "oversubscribe"),
    "gpus": _GPUS,
    "gpus-per-node": _GPUS,
    "gpus-per-task": ("1", "h100:1", ""),
    "gpus-per-socket": ("1", ""),
    "gres": _GRES,
    "gres-flags": ("enforce-binding", "disable-binding", "x", "", "enforce-binding,disable-binding"),
    "hint": ("compute_bound", "multithread", "nomultithread", "memory", "", "multithread,compute_bound"),
    "job-name": ("a", "a b", "a#b", "a'b", ""),
    "kill-on-invalid-dep": ("yes", "no", "YES", "maybe", ""),
    "licenses": ("", "foo:1"),
    "mem": _SIZE,
    "mem-per-cpu": _SIZE,
    "mem-per-gpu": _SIZE,
    "mincpus": _COUNT,
    "nice": (None, "5", "0", "5x", "x", ""),
    "no-kill": (None, "off", "no", "set", "x", ""),
    "no-requeue": (None,),
    "nodelist": ("w1", "w1,w2", "w[1-2]", "foo"),
    "nodes": _NODES,
    "ntasks": _COUNT,
    "ntasks-per-core": ("1", "2", "0"),
    "ntasks-per-node": _COUNT,
    "ntasks-per-socket": ("1", "2", ""),
    "oom-kill-step": (None, "0", "1", "2", "01", ""),
    "open-mode": ("append", "truncate", "a", "T", "x", ""),
    "overcommit": (None,),
    "oversubscribe": (None,),
    "partition": ("main", "", "foo"),
    "prefer": ("general", "memory"),
    "requeue": (None, "", "x"),
    "reservation": ("", "foo"),
    "signal": ("USR1", "B:USR1@30", "10@5", "sigterm", "USR1@", "R:USR2", "x", "", "0", "USR1@99999", "BUSR1"),
    "sockets-per-node": ("1", "2", "0"),
    "spread-job": (None,),
    "switches": ("1", "1@5", "2@1:00:00", "1@x", "0", "", "x"),
    "tasks-per-node": _COUNT,
    "threads-per-core": ("1", "2", "0"),
    "time": _TIME,
    # No 0: sbatch takes it only beside a time without limit, where it means nothing, and here it is refused.
    "time-min": ("5", "1:00", "x", ""),
    "tmp": _SIZE,
    "use-min-nodes": (None,),
    "wait-all-nodes": ("0", "1", "2", ""),
    "wckey": ("k", ""),
}
"""The forms of the options' values. None is an option without one."""
_SHORT = {
    "account": "A",
    "array": "a",
    "begin": "b",
    "chdir": "D",
    "constraint": "C",
    "cpus-per-task": "c",
    "dependency": "d",
    "distribution": "m",
    "exclude": "x",
    "gpus": "G",
    "job-name": "J",
    "licenses": "L",
    "nodelist": "w",
    "nodes": "N",
    "ntasks": "n",
    "overcommit": "O",
    "oversubscribe": "s",
    "partition": "p",
    "time": "t",
}
_OPTIONAL = frozenset({"exclusive", "nice", "no-kill", "oom-kill-step", "requeue"})


def draw(random: Random) -> str:
    """Draw the lines with options of a script."""
    words = [_option(random, name) for name in random.sample(sorted(VALUES), random.choice((1, 1, 2, 2, 3, 4)))]
    lines = [""]
    for word in words:
        if lines[-1] and random.random() < 0.4:
            lines.append("")
        lines[-1] += random.choice((" ", " ", "\t", "  ")) + word
    ends = ("", "", "", " ", " # a remark", " \\")
    prefixes = ("#SBATCH", "#SBATCH", "#SBATCH", "#SLURM")
    return "\n".join(random.choice(prefixes) + line + random.choice(ends) for line in lines)


def _option(random: Random, name: str) -> str:
    value = random.choice(VALUES[name])
    short = _SHORT.get(name)
    if value is None:
        return f"-{short}" if short and random.random() < 0.5 else f"--{name}"
    if value and short and name not in _OPTIONAL and random.random() < 0.4:
        return f"-{short}{random.choice(('', ' '))}{_quoted(random, value)}"
    between = " " if value and name not in _OPTIONAL and random.random() < 0.3 else "="
    return f"--{name}{between}{_quoted(random, value)}"


def _quoted(random: Random, value: str) -> str:
    protected = "".join(f"\\{each}" if each in "'\"\\#" else each for each in value)
    if " " in value or not value or random.random() < 0.2:
        return f'"{protected}"'
    return protected
