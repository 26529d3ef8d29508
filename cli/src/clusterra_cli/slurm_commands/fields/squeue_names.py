"""The fields of squeue by their names, for `-O`."""

from collections.abc import Callable, Mapping

from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.fields.squeue_fields import LETTERS
from clusterra_cli.slurm_commands.notation.columns import Field
from clusterra_cli.slurm_commands.notation.times import MINUTE, span
from clusterra_cli.slurm_commands.records import count, exit_code, number, part, text, texts

_IN_ORDER = """
Account AccrueTime admin_comment AllocNodes AllocSID ArrayJobId ArrayTaskId AssocId BatchFlag BatchHost BoardsPerNode
BurstBuffer BurstBufferState Cluster ClusterFeature Command Comment Container ContainerId ContainerType Contiguous
Cores CoreSpec CPUsPerTask cpus-per-task cpus-per-tres CronJob Deadline DelayBoot Dependency DerivedEC EligibleTime
EndTime ExcNodes Exclusive exit_code Feature GroupId GroupName HetJobId HetJobIdSet HetJobOffset JobArrayId JobId
LastSchedEval Licenses LicensesAlloc MaxCPUs MaxNodes mem-per-tres MCSLabel MinCPUs MinMemory MinTime MinTmpDisk Name
Network Nice NodeList NTPerCore NTPerNode NTPerSocket NTPerBoard NumCPUs NumNodes NumTasks Origin OriginRaw
OverSubscribe Partition PendingTime PreemptTime Prefer Priority PriorityLong Profile QOS Reason ReasonList Reboot
ReqNodes ReqSwitch Requeue Reservation ResizeTime RestartCnt SchedNodes SCT SegmentSize SiblingsActive
SiblingsActiveRaw SiblingsViable SiblingsViableRaw SLUID Sockets SPerBoard StartTime State StateCompact StdErr StdIn
StdOut SubmitTime system_comment Threads TimeLeft TimeLimit TimeUsed tres-alloc tres-bind tres-freq tres-per-job
tres-per-socket tres-per-task UserId UserName Wait4Switch WCKey WorkDir
"""
HELP = tuple(_IN_ORDER.split())
"""All names in the order of `squeue --helpFormat`."""
_LETTERS_OF = """
Account:a ArrayJobId:F ArrayTaskId:K BatchHost:B Command:o Comment:k Contiguous:O Cores:I CoreSpec:X Dependency:E
EndTime:e ExcNodes:x Feature:f GroupId:G GroupName:g JobArrayId:i JobId:A Licenses:W MinCPUs:c MinMemory:m
MinTmpDisk:d Name:j Nice:y NodeList:N NumCPUs:C NumNodes:D OverSubscribe:h Partition:P Priority:p PriorityLong:Q QOS:q
Reason:r ReasonList:R ReqNodes:n Reservation:v SchedNodes:Y SCT:z Sockets:H SLUID:s StartTime:S State:T StateCompact:t
SubmitTime:V Threads:J TimeLeft:L TimeLimit:l TimeUsed:M tres-per-node:b UserId:U UserName:u WCKey:w WorkDir:Z
"""
_AS_LETTERS = dict(each.split(":") for each in _LETTERS_OF.split())
"""The fields that letters stand for too."""


def _text(name: str, nothing: str = "(null)") -> Callable[[Job], str]:
    return lambda job: job.text(name, nothing)


def _count(name: str) -> Callable[[Job], str]:
    return lambda job: job.count(name)


def _moment(name: str) -> Callable[[Job], str]:
    return lambda job: job.moment(name)


def _minutes(name: str) -> Callable[[Job], str]:
    return lambda job: span(count(job.record, name) * MINUTE)


def _seconds(name: str) -> Callable[[Job], str]:
    return lambda job: span(count(job.record, name))


def _or_nothing(name: str, nothing: str = "N/A") -> Callable[[Job], str]:
    """A number, or what stands for none."""
    return lambda job: job.count(name) if number(job.record, name) else nothing


def _flag(name: str, yes: str = "1", no: str = "0") -> Callable[[Job], str]:
    return lambda job: yes if job.record.get(name) else no


def _ended(name: str) -> Callable[[Job], str]:
    return lambda job: "{}:{}".format(*exit_code(job.record, name))


def _profile(job: Job) -> str:
    named = texts(job.record, "profile")
    return "NotSet" if named in ((), ("NOT_SET",)) else ",".join(each.capitalize() for each in named)


def _het_job(job: Job) -> str:
    return _or_nothing("het_job_id")(job)


def _most_cpus(job: Job) -> str:
    return job.count("max_cpus") if count(job.record, "max_cpus") else job.count("cpus")


def _most_nodes(job: Job) -> str:
    return job.count("max_nodes") if count(job.record, "max_nodes") else str(job.node_count)


def _waited(job: Job) -> str:
    started = count(job.record, "start_time") if job.base != "PENDING" else 0
    return str((started or int(job.now)) - count(job.record, "submit_time"))


_OWN: Mapping[str, tuple[str, Callable[[Job], str]]] = {
    "AccrueTime": ("ACCRUE_TIME", _moment("accrue_time")),
    "admin_comment": ("ADMIN_COMMENT", _text("admin_comment")),
    "AdminComment": ("ADMIN_COMMENT", _text("admin_comment")),
    "AllocNodes": ("ALLOC_NODES", _text("allocating_node")),
    "AllocSID": ("ALLOC_SID", lambda _job: "0"),
    "AssocId": ("ASSOC_ID", _count("association_id")),
    "BatchFlag": ("BATCH_FLAG", _flag("batch_flag")),
    "BoardsPerNode": ("BOARDS_PER_NODE", lambda _job: "0"),
    "BurstBuffer": ("BURST_BUFFER", _text("burst_buffer")),
    "BurstBufferState": ("BURST_BUFFER_STATE", _text("burst_buffer_state")),
    "Cluster": ("CLUSTER", _text("cluster", "")),
    "ClusterFeature": ("CLUSTER_FEATURES", _text("cluster_features")),
    "Container": ("CONTAINER", _text("container")),
    "ContainerId": ("CONTAINERID", _text("container_id")),
    "ContainerType": ("CONTAINERTYPE", _text("container_type")),
    "CPUsPerTask": ("CPUS_PER_TASK", _or_nothing("cpus_per_task")),
    "cpus-per-task": ("CPUS_PER_TASK", _or_nothing("cpus_per_task")),
    "cpus-per-tres": ("CPUS_PER_TRES", _text("cpus_per_tres", "N/A")),
    "CronJob": ("CRON_JOB", lambda job: "Yes" if text(job.record, "cron") else "No"),
    "Deadline": ("DEADLINE", _moment("deadline")),
    "DelayBoot": ("DELAY_BOOT", _seconds("delay_boot")),
    "DerivedEC": ("DERIVED_EC", _ended("derived_exit_code")),
    "EligibleTime": ("ELIGIBLE_TIME", _moment("eligible_time")),
    "Exclusive": ("EXCLUSIVE", lambda job: job.exclusive),
    "exit_code": ("EXIT_CODE", _ended("exit_code")),
    "HetJobId": ("HET_JOB_ID", _het_job),
    "HetJobIdSet": ("HET_JOB_ID_SET", _text("het_job_id_set", "N/A")),
    "HetJobOffset": (
        "HET_JOB_OFFSET",
        lambda job: job.count("het_job_offset") if count(job.record, "het_job_id") else "N/A",
    ),
    "LastSchedEval": ("LAST_SCHED_EVAL", _moment("last_sched_evaluation")),
    "LicensesAlloc": ("LICENSES_ALLOC", _text("licenses_allocated")),
    "MaxCPUs": ("MAX_CPUS", _most_cpus),
    "MaxNodes": ("MAX_NODES", _most_nodes),
    "mem-per-tres": ("MEM_PER_TRES", _text("memory_per_tres", "N/A")),
    "MCSLabel": ("MCSLABEL", _text("mcs_label")),
    "MinTime": ("TIME_MIN", _minutes("time_minimum")),
    "Network": ("NETWORK", _text("network")),
    "NTPerCore": ("NTASKS_PER_CORE", _or_nothing("tasks_per_core")),
    "NTPerNode": ("NTASKS_PER_NODE", _count("tasks_per_node")),
    "NTPerSocket": ("NTASKS_PER_SOCKET", _or_nothing("tasks_per_socket")),
    "NTPerBoard": ("NTASKS_PER_BOARD", _count("tasks_per_board")),
    "NumTasks": ("TASKS", _count("tasks")),
    "Origin": ("ORIGIN", _text("federation_origin", "NA")),
    "OriginRaw": ("ORIGIN_RAW", lambda _job: "NA"),
    "PendingTime": ("PENDING_TIME", _waited),
    "PreemptTime": ("PREEMPT_TIME", _moment("preempt_time")),
    "Prefer": ("PREFER", _text("prefer")),
    "Profile": ("PROFILE", _profile),
    "Reboot": ("REBOOT", _flag("reboot")),
    "ReqSwitch": ("REQ_SWITCH", _count("required_switches")),
    "Requeue": ("REQUEUE", _flag("requeue")),
    "ResizeTime": ("RESIZE_TIME", _moment("resize_time")),
    "RestartCnt": ("RESTART_COUNT", _count("restart_cnt")),
    "SegmentSize": ("SEGMENT_SIZE", _or_nothing("segment_size")),
    "SiblingsActive": ("ACTIVE_SIBLINGS", _text("federation_siblings_active", "NA")),
    "SiblingsActiveRaw": ("ACTIVE_SIBLINGS_RAW", lambda _job: "NA"),
    "SiblingsViable": ("VIABLE_SIBLINGS", _text("federation_siblings_viable", "NA")),
    # So Slurm spells it.
    "SiblingsViableRaw": ("VIALBLE_SIBLINGS_RAW", lambda _job: "NA"),
    "SLUID": ("SLUID", lambda job: text(part(job.record, "step_id"), "sluid")),
    "SPerBoard": ("SOCKETS_PER_BOARD", _count("sockets_per_board")),
    "StdErr": ("STDERR", _text("standard_error")),
    "StdIn": ("STDIN", _text("standard_input")),
    "StdOut": ("STDOUT", _text("standard_output")),
    "system_comment": ("SYSTEM_COMMENT", _text("system_comment")),
    "tres-alloc": ("TRES_ALLOC", lambda job: text(job.record, "tres_alloc_str") or text(job.record, "tres_req_str")),
    "tres-bind": ("TRES_BIND", _text("tres_bind", "N/A")),
    "tres-freq": ("TRES_FREQ", _text("tres_freq", "N/A")),
    "tres-per-job": ("TRES_PER_JOB", _text("tres_per_job", "N/A")),
    "tres-per-socket": ("TRES_PER_SOCKET", _text("tres_per_socket", "N/A")),
    "tres-per-task": ("TRES_PER_TASK", _text("tres_per_task", "N/A")),
    "Wait4Switch": ("WAIT4SWITCH", _seconds("maximum_switch_wait_time")),
}
NAMES: Mapping[str, Field[Job]] = {
    **{name: LETTERS[letter] for name, letter in _AS_LETTERS.items()},
    **{name: Field(header, value) for name, (header, value) in _OWN.items()},
}
"""The fields by their names, whose case does not count."""
