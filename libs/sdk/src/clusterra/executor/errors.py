"""What can go wrong with a call on the cluster, besides an exception of its own."""

from clusterra.errors import ClusterraError


class CallFailed(ClusterraError):
    """The job of a call has ended without a result: it was killed, had too little memory or time, or was cancelled."""

    def __init__(self, job_id: str, state: str, reason: str, output: str) -> None:
        """`output` has the last lines of the job's output. It is text of the job, and no markup."""
        super().__init__(f"job {job_id} ended as {state} without a result{': ' + reason if reason else ''}")
        self.job_id = job_id
        self.state = state
        self.output = output

    def __reduce__(self) -> tuple[object, ...]:
        return type(self)._made, (self.args[0], self.job_id, self.state, self.output)

    @classmethod
    def _made(cls, text: str, job_id: str, state: str, output: str) -> "CallFailed":
        made = cls(job_id, state, "", output)
        made.args = (text,)
        return made


class ResultNotRead(ClusterraError):
    """A job could not be followed, or its result not be read. The job goes on, and its result stays in the bucket."""

    def __init__(self, job_id: str, path: str, error: BaseException) -> None:
        """`path` is where the result is in the bucket, or will be when the job has ended."""
        super().__init__(f"job {job_id}: its result is, or will be, the file {path} of the bucket: {error}")
        self.job_id = job_id
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return type(self)._made, (self.args[0], self.job_id, self.path)

    @classmethod
    def _made(cls, text: str, job_id: str, path: str) -> "ResultNotRead":
        made = cls(job_id, path, Exception())
        made.args = (text,)
        return made


class ResultRefused(ClusterraError):
    """A result does not have the seal of its job, so it was not read: somebody may have changed it."""


class PythonDiffers(ClusterraError):
    """The worker has another Python than this program, and cannot run functions that are sent as code."""


class CannotPickle(ClusterraError):
    """A function or its arguments cannot be pickled."""


class RemoteTraceback(Exception):
    """The traceback of an exception on the worker, as its cause."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\n{self.text}"
