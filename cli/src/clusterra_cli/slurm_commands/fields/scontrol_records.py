"""The records of `scontrol show`: lines of `Name=value`, which --oneliner joins."""

from collections.abc import Sequence

from clusterra_cli.slurm_commands.fields import node_values
from clusterra_cli.slurm_commands.fields.job_values import Job
from clusterra_cli.slurm_commands.notation import times
from clusterra_cli.slurm_commands.notation.sizes import mebibytes
from clusterra_cli.slurm_commands.records import Record, count, exit_code, infinite, number, objects, part, text, texts

type Lines = list[str]


def written(records: Sequence[Lines], *, one_line: bool) -> str:
    """Records as scontrol writes them: a blank line behind each, or each on one line."""
    if one_line:
        return "".join(" ".join(each.lstrip() for each in lines) + "\n" for lines in records)
    return "".join("\n   ".join(lines) + "\n\n" for lines in records)


def job_lines(job: Job, *, details: bool) -> Lines:
    """A job."""
    record = job.record
    alloc = job.text("allocating_node", "")
    lines = [
        _title(job),
        *([f"SLUID={text(part(record, 'step_id'), 'sluid')}"] if details else ()),
        f"UserId={job.user}({job.count('user_id')}) GroupId={job.group}({job.count('group_id')})"
        f" MCS_label={job.text('mcs_label', 'N/A')}",
        f"Priority={job.count('priority')} Nice={job.count('nice')} Account={job.text('account')}"
        f" QOS={job.text('qos')}" + (f" WCKey={text(record, 'wckey')}" if text(record, "wckey") else ""),
        f"JobState={job.state} Reason={job.reason.replace(' ', '_')} Dependency={job.text('dependency')}",
        f"Requeue={_flag(record, 'requeue')} Restarts={job.count('restart_cnt')}"
        f" BatchFlag={_flag(record, 'batch_flag')} Reboot={_flag(record, 'reboot')} ExitCode={job.exit_code}",
        *([f"DerivedExitCode={':'.join(map(str, exit_code(record, 'derived_exit_code')))}"] if details else ()),
        f"RunTime={times.full_span(job.elapsed_seconds)} TimeLimit={_limit(job)} TimeMin={_least_time(job)}",
        f"SubmitTime={job.moment('submit_time', 'Unknown')} EligibleTime={job.moment('eligible_time', 'Unknown')}",
        f"AccrueTime={job.moment('accrue_time', 'Unknown')}",
        f"StartTime={job.moment('start_time', 'Unknown')} EndTime={_end(job)} Deadline={job.moment('deadline')}",
        f"SuspendTime={job.moment('suspend_time', 'None')} SecsPreSuspend={job.count('pre_sus_time')}"
        f" LastSchedEval={job.moment('last_sched_evaluation', 'Unknown')} Scheduler={_scheduler(job)}",
        f"Partition={job.text('partition')} AllocNode:Sid={alloc}:0",
        f"ReqNodeList={job.text('required_nodes')} ExcNodeList={job.text('excluded_nodes')}",
        f"NodeList={job.text('nodes', '')}",
    ]
    if text(record, "batch_host"):
        lines.append(f"BatchHost={text(record, 'batch_host')}")
    lines += [
        f"NumNodes={_node_count(job)} NumCPUs={job.count('cpus')} NumTasks={_number(record, 'tasks')}"
        f" CPUs/Task={_per_task(job)} ReqB:S:C:T=0:0:*:*",
        f"ReqTRES={job.text('tres_req_str')}",
        f"AllocTRES={job.text('tres_alloc_str')}",
        f"Socks/Node={_any(record, 'sockets_per_node')} NtasksPerN:B:S:C={job.count('tasks_per_node')}:0:"
        f"{_any(record, 'tasks_per_socket')}:{_any(record, 'tasks_per_core')} CoreSpec={_core_spec(record)}",
        *(_node_details(job) if details else ()),
        f"MinCPUsNode={job.count('minimum_cpus_per_node')} {_memory(job)}"
        f" MinTmpDiskNode={job.count('minimum_tmp_disk_per_node')}",
        f"Features={job.text('features')} DelayBoot={times.full_span(count(record, 'delay_boot'))}",
        f"OverSubscribe={job.shared} Exclusive={_exclusive(record)} Contiguous={_flag(record, 'contiguous')}"
        f" Licenses={job.text('licenses')} LicensesAlloc={job.text('licenses_allocated')}"
        f" Network={job.text('network')}",
        f"Command={job.text('command')}",
        f"SubmitLine={job.text('submit_line')}",
        f"WorkDir={job.text('current_working_directory')}",
    ]
    for label, name in (("AdminComment", "admin_comment"), ("Comment", "comment"), ("Extra", "extra")):
        if text(record, name):
            lines.append(f"{label}={text(record, name)}")
    lines += [
        f"StdErr={job.path('stderr_expanded')}",
        f"StdIn={job.path('stdin_expanded') or '/dev/null'}",
        f"StdOut={job.path('stdout_expanded')}",
    ]
    for label, name in (
        ("CpusPerTres", "cpus_per_tres"),
        ("MemPerTres", "memory_per_tres"),
        ("TresPerJob", "tres_per_job"),
        ("TresPerNode", "tres_per_node"),
        ("TresPerTask", "tres_per_task"),
    ):
        if text(record, name):
            lines.append(f"{label}={text(record, name)}")
    return [*lines, "OOMKillStep=0"]


def node_lines(node: Record) -> Lines:
    """A node."""
    allocated, _, _, total = node_values.cpus(node)
    energy = part(node, "energy")
    features, active = (",".join(texts(node, each)) or "(null)" for each in ("features", "active_features"))
    lines = [
        f"NodeName={text(node, 'name')} Arch={text(node, 'architecture')} CoresPerSocket={count(node, 'cores')} ",
        f"CPUAlloc={allocated} CPUEfctv={count(node, 'effective_cpus')} CPUTot={total}"
        f" CPULoad={node_values.load(node)}",
        f"AvailableFeatures={features}",
        f"ActiveFeatures={active}",
        f"Gres={node_values.gres(node)}",
        f"NodeAddr={text(node, 'address')} NodeHostName={text(node, 'hostname')} Port={count(node, 'port')}"
        f" Version={text(node, 'version')}",
    ]
    if text(node, "operating_system"):
        lines.append(f"OS={text(node, 'operating_system')} ")
    free = number(node, "free_mem")
    lines += [
        f"RealMemory={count(node, 'real_memory')} AllocMem={count(node, 'alloc_memory')}"
        f" FreeMem={'N/A' if free is None else free} Sockets={count(node, 'sockets')} Boards={count(node, 'boards')}",
        f"State={'+'.join(texts(node, 'state'))} ThreadsPerCore={count(node, 'threads')}"
        f" TmpDisk={count(node, 'temporary_disk')} Weight={count(node, 'weight')}"
        f" Owner={text(node, 'owner') or 'N/A'} MCS_label={text(node, 'mcs_label') or 'N/A'}",
        f"Partitions={','.join(texts(node, 'partitions'))} ",
        f"BootTime={_moment(node, 'boot_time')} SlurmdStartTime={_moment(node, 'slurmd_start_time')}",
        f"LastBusyTime={_moment(node, 'last_busy')} ResumeAfterTime={_moment(node, 'resume_after')}"
        f" SuspendTime={'INFINITE' if infinite(node, 'suspend_time') else _moment(node, 'suspend_time')}",
        f"CfgTRES={text(node, 'tres')}",
        f"AllocTRES={text(node, 'tres_used')}",
        f"CurrentWatts={count(energy, 'current_watts')} AveWatts={count(energy, 'average_watts')}",
    ]
    if text(node, "extra"):
        lines.append(f"Extra={text(node, 'extra')}")
    if text(node, "reason"):
        by, when = text(node, "reason_set_by_user"), _moment(node, "reason_changed_at")
        lines.append(f"Reason={text(node, 'reason')}" + (f" [{by}@{when}]" if by else ""))
    return lines


def partition_lines(partition: Record) -> Lines:
    """A partition."""
    flags, most, least = texts(partition, "flags"), part(partition, "maximums"), part(partition, "minimums")
    usual, nodes, modes = part(partition, "defaults"), part(partition, "nodes"), part(partition, "partition")
    qos, accounts = part(partition, "qos"), part(partition, "accounts")
    denied = f"DenyAccounts={text(accounts, 'deny')}" if text(accounts, "deny") else ""
    return [
        f"PartitionName={text(partition, 'name')}",
        f"AllowGroups={text(part(partition, 'groups'), 'allowed') or 'ALL'}"
        f" {denied or 'AllowAccounts=' + (text(accounts, 'allowed') or 'ALL')}"
        f" AllowQos={text(qos, 'allowed') or 'ALL'}",
        f"AllocNodes={text(nodes, 'allowed_allocation') or 'ALL'} Default={_yes('DEFAULT' in flags)}"
        f" QoS={text(qos, 'assigned') or 'N/A'}",
        f"DefaultTime={_time(usual, 'time', 'NONE')} DisableRootJobs={_yes('NO_ROOT' in flags)}"
        f" Exclusive={text(modes, 'exclusive') or 'NO'} GraceTime={count(partition, 'grace_time')}"
        f" Hidden={_yes('HIDDEN' in flags)}",
        f"MaxNodes={_most(most, 'nodes')} MaxTime={_time(most, 'time', 'UNLIMITED')} MinNodes={count(least, 'nodes')}"
        f" LLN={_yes('LLN' in flags)} MaxCPUsPerNode={_most(most, 'cpus_per_node')}"
        f" MaxCPUsPerSocket={_most(most, 'cpus_per_socket')}",
        *([f"NodeSets={text(partition, 'node_sets')}"] if text(partition, "node_sets") else ()),
        f"Nodes={text(nodes, 'configured')}",
        f"PriorityJobFactor={count(part(partition, 'priority'), 'job_factor')}"
        f" PriorityTier={count(part(partition, 'priority'), 'tier')} RootOnly={_yes('ROOT_ONLY' in flags)}"
        f" ReqResv={_yes('REQ_RESV' in flags)} OverSubscribe={text(modes, 'oversubscribe') or 'NO'}",
        "OverTimeLimit=NONE PreemptMode=OFF",
        f"State={','.join(texts(modes, 'state'))} TotalCPUs={count(part(partition, 'cpus'), 'total')}"
        f" TotalNodes={count(nodes, 'total')}"
        f" SelectTypeParameters={','.join(texts(partition, 'select_type')) or 'NONE'}",
        f"JobDefaults={text(usual, 'job') or '(null)'}",
        f"Def{_memory_limit(usual)} Max{_memory_limit(most)}",
        f"TRES={text(part(partition, 'tres'), 'configured')}",
    ]


def _title(job: Job) -> str:
    array = ""
    if job.array_id:
        task = job.shown_tasks.partition("%")[0] if job.task_id is None else str(job.task_id)
        throttle = count(job.record, "array_max_tasks")
        whole = f"{task}%{throttle}" if throttle and job.task_id is None else task
        array = f" ArrayJobId={job.array_id} ArrayTaskId={whole}" + (
            f" ArrayTaskThrottle={throttle}" if throttle else ""
        )
    elif het := count(job.record, "het_job_id"):
        array = f" HetJobId={het} HetJobOffset={job.count('het_job_offset')}"
    return f"JobId={job.id}{array} JobName={job.text('name')}"


def _flag(record: Record, name: str) -> int:
    return int(bool(record.get(name)))


def _yes(value: bool) -> str:
    return "YES" if value else "NO"


def _any(record: Record, name: str) -> str:
    value = number(record, name)
    return "*" if value is None else str(value)


def _number(record: Record, name: str) -> str:
    value = number(record, name)
    return "N/A" if value is None else str(value)


def _limit(job: Job) -> str:
    if infinite(job.record, "time_limit"):
        return "UNLIMITED"
    minutes = job.limit_minutes
    return "Partition_Limit" if minutes is None else times.full_span(minutes * times.MINUTE)


def _least_time(job: Job) -> str:
    minutes = count(job.record, "time_minimum")
    return times.full_span(minutes * times.MINUTE) if minutes else "N/A"


def _end(job: Job) -> str:
    if job.base == "RUNNING" and infinite(job.record, "time_limit"):
        return "Unknown"
    return job.moment("end_time", "Unknown")


def _scheduler(job: Job) -> str:
    return "Backfill" if "BACKFILL_ATTEMPTED" in texts(job.record, "flags") else "Main"


def _node_count(job: Job) -> str:
    most = count(job.record, "max_nodes")
    return f"{job.node_count}-{most}" if most and job.base == "PENDING" else str(job.node_count)


def _per_task(job: Job) -> str:
    return _number(job.record, "cpus_per_task")


def _core_spec(record: Record) -> str:
    value = count(record, "core_spec")
    return str(value) if 0 < value < 0x7FFE else "*"


def _memory(job: Job) -> str:
    per_cpu = number(job.record, "memory_per_cpu")
    if per_cpu:
        return f"MinMemoryCPU={mebibytes(per_cpu)}"
    per_node = number(job.record, "memory_per_node")
    return f"MinMemoryNode={mebibytes(per_node) if per_node else 0}"


def _exclusive(record: Record) -> str:
    given = {each.lower() for each in texts(record, "shared")}
    return "USER" if "user" in given else "MCS" if "mcs" in given else "NO"


def _node_details(job: Job) -> Lines:
    """The CPUs and the memory on each node."""
    lines = ["JOB_GRES=(null)"] if job.resources else []
    for node in objects(part(job.resources, "nodes"), "allocation"):
        cores = [
            place * len(objects(socket, "cores")) + count(core, "index")
            for place, socket in enumerate(objects(node, "sockets"))
            for core in objects(socket, "cores")
            if "ALLOCATED" in texts(core, "status")
        ]
        memory = count(part(node, "memory"), "allocated")
        lines.append(f"  Nodes={text(node, 'name')} CPU_IDs={_ranges(cores)} Mem={memory} GRES=")
    return lines


def _ranges(numbers: Sequence[int]) -> str:
    found: list[list[int]] = []
    for each in sorted(numbers):
        if found and each == found[-1][-1] + 1:
            found[-1] = [found[-1][0], each]
        else:
            found.append([each])
    return ",".join("-".join(map(str, each)) for each in found)


def _moment(record: Record, name: str) -> str:
    seconds = number(record, name)
    return times.moment(seconds) if seconds else "None"


def _time(record: Record, name: str, nothing: str) -> str:
    minutes = number(record, name)
    return nothing if minutes is None else times.full_span(minutes * times.MINUTE)


def _most(record: Record, name: str) -> str:
    value = number(record, name)
    return "UNLIMITED" if value is None else str(value)


def _memory_limit(record: Record) -> str:
    """As Slurm writes a default or a limit of memory: of each CPU where it is of CPUs, else of the node."""
    if per_cpu := count(record, "partition_memory_per_cpu"):
        return f"MemPerCPU={per_cpu}"
    return f"MemPerNode={count(record, 'partition_memory_per_node') or 'UNLIMITED'}"
