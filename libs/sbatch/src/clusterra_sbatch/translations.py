"""What a value of each of sbatch's options means: fields of slurmrestd's job description, in its units."""

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from clusterra_sbatch.values import OptionValue, Untranslatable

type Translate = Callable[[OptionValue], Fields]
type Fields = dict[str, Any]
"""Fields of ScriptJob, and these keys, which `applying.apply` takes out again. None is what is not given after all."""
EXPORT = "--export"
UNLIMITED = "--time=UNLIMITED"
UMASK = "umask"
HINT = "--hint"
MULTITHREAD = "multithread"
HINTS = ("compute_bound", "memory_bound", MULTITHREAD, "nomultithread")
"""The hints; all but one mean one thread of each core."""
INSTEAD_OF_HINT = frozenset({"threads_per_core", "tasks_per_core", "sockets_per_node"})
"""Fields beside which a hint means nothing, whatever it is."""
GRES = "--gres"
GPUS_PER_NODE = "--gpus-per-node"
GRES_FLAGS = "--gres-flags"
MAX_NICE = 2**31 - 3


def text_field(field: str) -> Translate:
    """Translate a text that Slurm itself parses to this field."""
    return lambda value: {field: value.given()}


def names_field(field: str) -> Translate:
    """Translate a list of names to this field."""
    return lambda value: {field: (value.text,) if value.text else None}


def path_field(field: str) -> Translate:
    """Translate the path of a file to this field; `none` is no file."""

    def translate(value: OptionValue) -> Fields:
        if not value.text:
            raise Untranslatable("must be a file: an empty name is the folder in which the job starts")
        return {field: "/dev/null" if value.text.lower() == "none" else value.text}

    return translate


def ignore(_value: OptionValue) -> Fields:
    """Set nothing."""
    return {}


def reject(reason: str) -> Translate:
    """Refuse every value, for this reason."""

    def translate(_value: OptionValue) -> Fields:
        raise Untranslatable(reason)

    return translate


def exclusive(value: OptionValue) -> Fields:
    """`--exclusive`: with whom nodes are shared."""
    kinds = {"exclusive": "none", "allocation": "none"} | {
        name: name for name in ("oversubscribe", "user", "mcs", "topo")
    }
    kind = kinds.get(value.text.lower() or "exclusive")
    if kind is None:
        raise Untranslatable("the value must be user, mcs or topo, or be omitted")
    return {"shared": (kind,)}


MAIL_TYPES: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT", "ARRAY_TASKS")},
    "INVALID_DEPEND": ("INVALID_DEPENDENCY",),
    "TIME_LIMIT": ("TIME=100%",),
    "TIME_LIMIT_90": ("TIME=90%",),
    "TIME_LIMIT_80": ("TIME=80%",),
    "TIME_LIMIT_50": ("TIME=50%",),
    "ALL": ("BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT", "INVALID_DEPENDENCY"),
}
"""The words of `--mail-type`, and slurmrestd's names for what they mean."""


def mail_type(value: OptionValue) -> Fields:
    """`--mail-type`: a list of what the owner gets a mail about.

    As sbatch does, it reads no further than `NONE`, which takes back what stands before it, and skips words that it
    does not know where there are others.
    """
    words = [each for each in value.text.upper().split(",") if each]
    if "NONE" in words:
        return {"mail_type": None}
    found = dict.fromkeys(flag for word in words for flag in MAIL_TYPES.get(word, ()))
    if not found:
        raise Untranslatable(f"must be a list of {', '.join(('NONE', *MAIL_TYPES))}")
    return {"mail_type": tuple(found)}


def nice(value: OptionValue) -> Fields:
    """`--nice`: 100 without a value."""
    if not value.text:
        return {"nice": 100}
    # sbatch reads as many digits as there are, and none as zero.
    found = re.match(r"\s*([+-]?[0-9]{1,18})", value.text, re.ASCII)
    nice = int(found[1]) if found else 0
    if abs(nice) > MAX_NICE:
        raise Untranslatable(f"must be a number up to {MAX_NICE}")
    return {"nice": nice}


def open_mode(value: OptionValue) -> Fields:
    """`--open-mode`, of which sbatch reads the first letter."""
    modes = {"a": "APPEND", "t": "TRUNCATE"}
    if (mode := modes.get(value.text[:1].lower())) is None:
        raise Untranslatable("must be append or truncate")
    return {"open_mode": (mode,)}


def requeue(value: OptionValue) -> Fields:
    """`--requeue`, without a value."""
    if value.text:
        raise Untranslatable("values are not supported")
    return {"requeue": True}


def time_limit(value: OptionValue) -> Fields:
    """`--time`: minutes, or no limit."""
    minutes = value.minutes()
    return {"time_limit": minutes, UNLIMITED: minutes is None}


def time_minimum(value: OptionValue) -> Fields:
    """`--time-min`: minutes."""
    minutes = value.minutes()
    if minutes is None:
        raise Untranslatable("must be longer than zero and not without limit")
    return {"time_minimum": minutes}


def umask(value: OptionValue) -> Fields:
    """The umask of `#PBS -W umask=`."""
    if not re.fullmatch(r"[0-7]{1,4}", value.text) or int(value.text, 8) > 0o777:
        raise Untranslatable("must be an octal number up to 0777")
    return {UMASK: value.text}


def signal(value: OptionValue) -> Fields:
    """`--signal`, as three fields."""
    signal, seconds, flags = value.signal()
    return {"kill_warning_signal": signal, "kill_warning_delay": seconds, "kill_warning_flags": flags}


def kill_on_invalid_dependency(value: OptionValue) -> Fields:
    """`--kill-on-invalid-dep`: yes or no."""
    return {"flags": ("KILL_INVALID_DEPENDENCY" if value.yes() else "NO_KILL_INVALID_DEPENDENCY",)}


def no_kill(value: OptionValue) -> Fields:
    """`--no-kill`: on, or off by its value."""
    if value.text.lower() not in {"", "off", "no", "set"}:
        raise Untranslatable("the value must be off, or be omitted")
    return {"kill_on_node_fail": value.text.lower() in {"off", "no"}}


def gres_flags(value: OptionValue) -> Fields:
    """`--gres-flags`, of which the last one counts."""
    flags = {
        "enforce-binding": "GRES_BINDING_ENFORCED",
        "disable-binding": "GRES_BINDING_DISABLED",
    }
    given = [each for each in value.text.lower().split(",") if each]
    if not all(each in flags for each in given):
        raise Untranslatable(f"must be one of {', '.join(flags)}")
    if len(set(given)) > 1:
        raise Untranslatable(f"{' and '.join(flags)} are mutually exclusive")
    # A later option takes back what an earlier one has set.
    return {GRES_FLAGS: flags[given[0]] if given else None}


def container(value: OptionValue) -> Fields:
    """`--container`: the absolute path of a bundle."""
    if not value.text:
        return {"container": None}
    if not value.text.startswith("/"):
        raise Untranslatable("must be the absolute path of an OCI bundle")
    return {"container": value.text}


def switches(value: OptionValue) -> Fields:
    """`--switches`: a count, and how long to wait for it."""
    count, at, limit = value.text.partition("@")
    wait = None
    if at:
        # sbatch takes a time that it cannot read for none.
        with suppress(Untranslatable):
            wait = OptionValue(limit, value.now).seconds()
    return {"required_switches": OptionValue(count, value.now).integer(1), "wait_for_switch": wait}


def oom_kill_step(value: OptionValue) -> Fields:
    """`--oom-kill-step`: 1 without a value."""
    if value.text and (not re.fullmatch(r"\s*\+?[0-9]{1,18}", value.text, re.ASCII) or int(value.text) > 1):
        raise Untranslatable("the value must be 0 or 1, or be omitted")
    return {"oom_kill_step": int(value.text or 1)}


def wait_all_nodes(value: OptionValue) -> Fields:
    """`--wait-all-nodes`: 0 or 1."""
    number = OptionValue(value.text or "0", value.now).integer()
    if number > 1:
        raise Untranslatable("the value must be 0 or 1")
    return {"wait_all_nodes": number == 1}
