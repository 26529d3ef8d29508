"""Asks the gateway for what Slurm's commands ask slurmctld and slurmdbd.

A read that fails is tried again for some seconds, because programs take "no job" and "no answer" for the end of a job.
Then the command fails as Slurm's own does while slurmctld is away. Nothing here imports pydantic: commands start fast.
"""

import atexit

from clusterra.context import ConfigError
from clusterra.errors import (
    ApiError,
    ClusterraError,
    NotClusterra,
    NotFound,
    OutcomeUnknown,
    QuotaExceeded,
    SignInNeeded,
    TooManyRequests,
    Unavailable,
    Unreachable,
)
from clusterra.exchange import Method, Query, Request
from clusterra.http.retrying import ask
from clusterra.slurm_versions import SLURM_VERSIONS
from clusterra.target import chosen_target

from clusterra_cli.hints import NO_CREDENTIAL, SIGN_IN
from clusterra_cli.slurm_commands.failures import (
    ACCOUNTING_POLICY,
    DENIED,
    SENTENCES,
    TIMED_OUT,
    UNKNOWN,
    Away,
    CommandFailed,
    NotKnown,
    Refused,
)
from clusterra_cli.slurm_commands.records import Record

READ_SECONDS = 6.0
"""For how long a read is tried: programs around Slurm give a command some 10 seconds."""
ANSWER_SECONDS = 8.0
CHANGE_SECONDS = 20.0
NOTHING: Query = {}


class Gateway:
    """The gateway, and one cluster of it."""

    def __init__(self) -> None:
        """Use CLUSTERRA_URL, CLUSTERRA_TOKEN and CLUSTERRA_CLUSTER, else the stored context. Raises CommandFailed."""
        # Only here: a wrong command line is reported before HTTP is imported.
        from clusterra.http.endpoint import Endpoint
        from clusterra.http.sync_transport import SyncTransport

        try:
            target = chosen_target(None, None, None)
        except ConfigError as error:
            raise CommandFailed(f"clusterra: {error}") from None
        self.target = target
        self.url = target.url
        self.transport = SyncTransport(Endpoint(target.url, target.credentials, ANSWER_SECONDS))
        atexit.register(self.transport.close)
        self._cluster = target.cluster
        self._versions: tuple[str, ...] = SLURM_VERSIONS
        self._confirmed = False

    @property
    def cluster(self) -> str:
        """The cluster: the one that is named, or the only one of the caller. Raises CommandFailed, Refused."""
        if self._cluster is None:
            known = [each["id"] for each in self.ask("GET", "/v1/clusters")["clusters"]]
            if len(known) != 1:
                raise CommandFailed(f"clusterra: set CLUSTERRA_CLUSTER to one of {', '.join(known) or 'no cluster'}")
            self._cluster = str(known[0])
        return self._cluster

    def slurm(self, path: str, query: Query = NOTHING) -> Record:
        """What slurmrestd answers to a read, such as `slurm/jobs/`. Raises Refused, NotKnown, Away."""
        family, _, rest = path.partition("/")
        try:
            return self._read(family, rest, query)
        except NotKnown:
            if rest.endswith("/"):
                # Every cluster has its lists: a job must not seem gone where the cluster is not there.
                raise Refused(f"there is no cluster {self.cluster} at {self.url}") from None
            if self._confirmed:
                raise
        # Either there is no such thing, or the cluster does not serve this version.
        self.slurm("slurm/ping/")
        return self._read(family, rest, query)

    def _read(self, family: str, rest: str, query: Query) -> Record:
        """The same in the first version that is served: lists are there in each of them. Raises as `slurm`."""
        while True:
            try:
                answer = self.ask("GET", f"/v1/clusters/{self.cluster}/{family}/{self._versions[0]}/{rest}", query)
            except NotKnown:
                if self._confirmed or not rest.endswith("/") or len(self._versions) == 1:
                    raise
                self._versions = self._versions[1:]
            else:
                self._confirmed = True
                return answer

    def jobs_api(self, method: Method, path: str, body: object = None, *, key: str | None = None) -> Record:
        """A request of our own API of jobs, such as `42/hold`. Raises Refused, NotKnown, Away."""
        return self.ask(method, f"/v1/clusters/{self.cluster}/jobs/{path}", body=body, key=key)

    def ask(
        self, method: Method, path: str, query: Query = NOTHING, body: object = None, key: str | None = None
    ) -> Record:
        """The answer to any request; empty for one without a body. Raises Refused, NotKnown, Away."""
        request = Request(
            method,
            path,
            query,
            body,
            idempotency_key=key,
            deadline_seconds=READ_SECONDS if method == "GET" else CHANGE_SECONDS,
            repeatable=method == "DELETE",
        )
        try:
            answer = self.transport.run(ask(request, self.url))
            found = answer.json if answer.body else {}
        except ClusterraError as error:
            raise Refused(UNKNOWN) if method == "POST" and _may_be_done(error) else refusal(error) from None
        except ValueError:
            raise Away(TIMED_OUT) from None
        if not isinstance(found, dict):
            raise Away(TIMED_OUT)
        return found


def _may_be_done(error: ClusterraError) -> bool:
    """Whether a change without an answer may have been carried out."""
    return isinstance(error, OutcomeUnknown) or (isinstance(error, Unreachable) and "Connect" not in str(error))


def refusal(error: ClusterraError) -> Refused:
    """What an error of the SDK is for Slurm's commands."""
    match error:
        case Unreachable():
            return Away(TIMED_OUT) if "Timeout" in str(error) and "Connect" not in str(error) else Away()
        case NotClusterra():
            return Away()
        case Unavailable() | TooManyRequests():
            return Away()
        case OutcomeUnknown():
            return Away(TIMED_OUT)
        case SignInNeeded():
            return Refused(f"Protocol authentication error: {_sign_in(error.detail)}", 1007)
        case NotFound():
            return NotKnown()
        case QuotaExceeded():
            return _refused(error, ACCOUNTING_POLICY)
        case ApiError():
            return _refused(error, error.code)
    return Refused(str(error).replace("\n", ": "))


def _sign_in(detail: str) -> str:
    """What somebody is to do whose token is missing or not taken, with the reason where they have one."""
    return f"sign in with {SIGN_IN}" if NO_CREDENTIAL in detail else f"{detail}: sign in with {SIGN_IN}"


def _refused(error: ApiError, number: int | None) -> Refused:
    """The refusal with Slurm's sentence, and with the gateway's own reason where that is not Slurm's.

    What Slurm refuses has Slurm's text at the end of the detail: `Batch job submission failed: Invalid qos
    specification`.
    """
    own = str(error).replace("\n", ": ")
    if number is None:
        return Refused(own or DENIED)
    sentence = SENTENCES.get(number)
    if sentence is not None and sentence not in error.detail:
        return Refused(sentence, number, own)
    return Refused(error.detail.rpartition(": ")[2] or error.detail, number)
