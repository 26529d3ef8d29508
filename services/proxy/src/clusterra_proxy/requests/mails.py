"""What `--mail-type` and `--mail-user` have an effect on. Slurm keeps both; the events service sends the mails."""

from clusterra_contracts.identity import SlurmUser
from clusterra_sbatch.script_job import ScriptJob

OFF = "--mail-type has no effect: this installation sends no mails"
OTHER_ADDRESS = "--mail-user is left out: mails go to your own address only"
_WITHOUT_EFFECT = {
    "TIME=90%": "TIME_LIMIT_90",
    "TIME=80%": "TIME_LIMIT_80",
    "TIME=50%": "TIME_LIMIT_50",
    "STAGE_OUT": "STAGE_OUT",
    "INVALID_DEPENDENCY": "INVALID_DEPEND",
}
"""The types about which no mail is sent, by slurmrestd's names."""
_ALL = frozenset({"BEGIN", "END", "FAIL", "REQUEUE", "STAGE_OUT", "INVALID_DEPENDENCY"})
"""What `ALL` stands for: whoever asks for all that there is need not be warned."""


def with_own_mail(job: ScriptJob, user: SlurmUser, email: str, *, mails: bool) -> tuple[ScriptJob, tuple[str, ...]]:
    """Return a job whose mails go to its owner, and warnings about what has no effect.

    `email` is the owner's address; empty where it is unknown. Another address is left out: the job runs all the same.
    """
    warnings = list[str]()
    if job.mail_user is not None:
        own = job.mail_user.strip().lower() in {user.name, email.lower()} - {""}
        if job.mail_user and email and not own:
            warnings.append(OTHER_ADDRESS)
        # Slurm then names the owner.
        job = job.model_copy(update={"mail_user": None})
    if job.mail_type and not mails:
        warnings.append(OFF)
    elif job.mail_type and not set(job.mail_type) >= _ALL:
        lost = [_WITHOUT_EFFECT[each] for each in job.mail_type if each in _WITHOUT_EFFECT]
        if lost:
            warnings.append(f"--mail-type={','.join(lost)} has no effect: no such mails are sent")
    return job, tuple(warnings)
