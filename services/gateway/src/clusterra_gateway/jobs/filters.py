"""The filters of a list of jobs and of their counts, as queries and as the proxy is asked."""

from typing import Annotated, Literal

from clusterra_contracts.job_states import JobState
from clusterra_contracts.rpc.job_search import MAX_SEARCH, is_found
from clusterra_contracts.rpc.slurm import JobPage, ListJobs, Viewer
from pydantic import BeforeValidator, Field, StringConstraints

from clusterra_gateway.http.answers.responses import ResponseBody
from clusterra_gateway.http.requests.errors import Unavailable
from clusterra_gateway.http.requests.parameters import CommaSeparated, Query, Time

State = Annotated[JobState, BeforeValidator(lambda state: str(state).upper())]
Ascending = Literal["submitted", "started", "ended", "name", "user", "state"]
Descending = Literal["-submitted", "-started", "-ended", "-name", "-user", "-state"]
Search = Annotated[str, StringConstraints(min_length=1, max_length=MAX_SEARCH)]


class CountsQuery(Query):
    """Filters; one that is not given does not filter. Times are inclusive."""

    user: str | None = None
    name: str | None = None
    search: Search | None = None
    """A part of the name, in upper or lower case; or the id of the job or of its array."""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    submitted_after: Time | None = None
    submitted_before: Time | None = None

    def of(self, viewer: Viewer) -> ListJobs:
        """The request of the jobs that this person sees."""
        return ListJobs(viewer=viewer, **dict(self))


class JobsQuery(CountsQuery):
    """Filters; one that is not given does not filter. Times are inclusive."""

    state: Annotated[tuple[State, ...] | None, CommaSeparated] = None
    sort: Ascending | Descending = "-submitted"
    """`-` before the field: descending. A cursor belongs to one order."""
    limit: Annotated[int, Field(ge=1, le=1000)] = 100
    cursor: str | None = None
    costs: bool = False
    """Whether the answer has the cost of each job."""

    def of(self, viewer: Viewer) -> ListJobs:
        """The request of the page that this person sees."""
        asked = {name: value for name, value in self if name not in ("state", "costs")}
        return ListJobs(viewer=viewer, states=self.state, **asked)

    def found(self, page: JobPage) -> bool:
        """Whether a page has what is searched for, and nothing else: a proxy of the release before does not search."""
        return self.search is None or all(is_found(self.search, job.job_id, job.name) for job in page.jobs)


class CountedJobs(ResponseBody):
    """How many jobs match the filters."""

    states: dict[str, int]
    """By state. One that no job has is left out. A pending array is one job, as in the list."""
    total: int


def no_search_yet() -> Unavailable:
    """The error while the cluster's proxy is of the release before."""
    return Unavailable("this cluster cannot search yet: it is being upgraded", hint="try again in a few minutes")
