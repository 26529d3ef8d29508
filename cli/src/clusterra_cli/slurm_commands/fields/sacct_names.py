"""The names of sacct's fields, and how wide they are."""

from collections.abc import Mapping

DEFAULT = "jobid,jobname,partition,account,alloccpus,state,exitcode"
BRIEF = "jobid,state,exitcode"
_NAMES = (
    "Account AdminComment AllocCPUS AllocNodes AllocTRES AssocID AveCPU AveCPUFreq AveDiskRead AveDiskWrite AvePages"
    " AveRSS AveVMSize BlockID Cluster Comment Constraints ConsumedEnergy ConsumedEnergyRaw Container CPUTime"
    " CPUTimeRAW DBIndex DerivedExitCode Elapsed ElapsedRaw Eligible End Exclusive ExitCode Extra FailedNode"
    " Flags GID Group JobID JobIDRaw JobName Layout Licenses MaxDiskRead MaxDiskReadNode MaxDiskReadTask MaxDiskWrite"
    " MaxDiskWriteNode"
    " MaxDiskWriteTask MaxPages MaxPagesNode MaxPagesTask MaxRSS MaxRSSNode MaxRSSTask MaxVMSize MaxVMSizeNode"
    " MaxVMSizeTask McsLabel MinCPU MinCPUNode MinCPUTask NCPUS NNodes NodeList NTasks OriginalSLUID OverSubscribe"
    " Partition Planned PlannedCPU PlannedCPURAW Priority QOS QOSRAW QOSREQ Reason ReqCPUFreq ReqCPUFreqGov"
    " ReqCPUFreqMax ReqCPUFreqMin ReqCPUS ReqMem ReqNodes ReqTRES Reservation ReservationId ReqReservation Restarts"
    " SegmentSize SLUID Start State StdErr StdIn StdOut Submit SubmitLine Suspended SystemComment SystemCPU Timelimit"
    " TimelimitRaw TotalCPU TRESUsageInAve TRESUsageInMax TRESUsageInMaxNode TRESUsageInMaxTask TRESUsageInMin"
    " TRESUsageInMinNode TRESUsageInMinTask TRESUsageInTot TRESUsageOutAve TRESUsageOutMax TRESUsageOutMaxNode"
    " TRESUsageOutMaxTask TRESUsageOutMin TRESUsageOutMinNode TRESUsageOutMinTask TRESUsageOutTot UID User UserCPU"
    " WCKey WCKeyID WorkDir"
)
NAMES = tuple(_NAMES.split())
"""All fields, in the order in which Slurm lists them."""
_WIDTHS = {
    -12: "JobID JobIDRaw",
    6: "GID UID",
    7: "AssocID",
    8: "ExitCode NNodes NTasks ReqCPUS ReqNodes WCKeyID",
    9: "Group Layout McsLabel User",
    14: "AveDiskRead AveDiskWrite Comment ConsumedEnergy ReservationId",
    15: "DerivedExitCode FailedNode MaxDiskReadNode MaxDiskReadTask MaxDiskWriteNode MaxDiskWriteTask NodeList",
    12: "MaxDiskRead MaxDiskWrite MaxPagesNode MaxVMSizeNode MaxVMSizeTask",
    16: "BlockID",
    17: "ConsumedEnergyRaw",
    19: "AdminComment Constraints Eligible End Start Submit SystemComment",
    20: "Reservation ReqReservation SubmitLine WorkDir StdErr StdIn StdOut",
    22: "Reason",
}
WIDTHS: Mapping[str, int] = dict.fromkeys(NAMES, 10) | {
    name: width for width, names in _WIDTHS.items() for name in names.split()
}
"""The width of a field, negative for one on the left."""
