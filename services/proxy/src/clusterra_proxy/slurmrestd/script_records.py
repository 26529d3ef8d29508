"""slurmdbd's records of jobs with their batch scripts, which may hold secrets: no value of them is logged."""

from typing import ClassVar

from pydantic import Field

from clusterra_proxy.slurmrestd.answers import Answer
from clusterra_proxy.slurmrestd.reading.fields import JobNumber, NullableList, Text
from clusterra_proxy.slurmrestd.reading.repair import Readable


class AccountingScript(Readable):
    """A run of a job with its script, which is empty where slurmdbd has none."""

    KEY: ClassVar = "job_id"

    job_id: JobNumber
    script: Text = Field(default="", repr=False)


class AccountingScripts(Answer):
    """Answer to `GET slurmdb jobs/` with the scripts of jobs."""

    RECORDS: ClassVar = "jobs"
    RECORD: ClassVar = AccountingScript
    KIND: ClassVar = "accounting"

    jobs: NullableList[AccountingScript] = ()
