"""All routes of the gateway. The router, `/v1/api-routes` and the OpenAPI document are made from this table."""

from clusterra_contracts.agent_http import PATH, AgentHeartbeat, AgentHeartbeatReply
from clusterra_contracts.rpc.history import HistoryPage
from clusterra_contracts.rpc.slurm import Job, JobPage, Submitted
from clusterra_contracts.rpc.why import Explanation

from clusterra_gateway.agents import heartbeat as agent_heartbeat
from clusterra_gateway.clusters import clusters
from clusterra_gateway.events import events
from clusterra_gateway.http import description
from clusterra_gateway.http.route import AgentRoute, PrivateRoute, PublicRoute, Route
from clusterra_gateway.identity import login
from clusterra_gateway.identity import tokens as users
from clusterra_gateway.jobs import jobs
from clusterra_gateway.output import output as logs

EVENT_STREAM = "text/event-stream"

CLUSTER = "/v1/clusters/{cluster_id}"
JOB = f"{CLUSTER}/jobs/{{job_id}}"

ROUTES: tuple[Route, ...] = (
    PublicRoute("auth_login", "GET", "/v1/auth/login", login.login, status=302, query=login.LoginQuery),
    PublicRoute(
        "auth_callback_redirect", "GET", "/v1/auth/callback", login.callback_redirect, status=303, query=login.Callback
    ),
    PublicRoute(
        "auth_callback", "POST", "/v1/auth/callback", login.callback, body=login.Callback, result=login.SignedIn
    ),
    PrivateRoute("auth_logout", "POST", "/v1/auth/logout", login.logout, status=204),
    PrivateRoute("users_me", "GET", "/v1/users/me", users.me, result=users.Profile),
    PrivateRoute("tokens_list", "GET", "/v1/users/me/tokens", users.tokens, result=users.Tokens),
    PrivateRoute(
        "tokens_make",
        "POST",
        "/v1/users/me/tokens",
        users.make_token,
        status=201,
        body=users.NewToken,
        result=users.MadeToken,
    ),
    PrivateRoute("tokens_revoke", "DELETE", "/v1/users/me/tokens/{token_id}", users.revoke_token, status=204),
    PrivateRoute("clusters_list", "GET", "/v1/clusters", clusters.clusters, result=clusters.Clusters),
    PrivateRoute(
        "jobs_submit",
        "POST",
        f"{CLUSTER}/jobs/submit",
        jobs.submit,
        status=201,
        headers=("Idempotency-Key",),
        body=jobs.Submission,
        result=Submitted,
    ),
    PrivateRoute("jobs_list", "GET", f"{CLUSTER}/jobs", jobs.jobs, query=jobs.JobsQuery, result=JobPage),
    PrivateRoute("jobs_get", "GET", JOB, jobs.job, result=Job),
    PrivateRoute("jobs_why", "GET", f"{JOB}/why", jobs.why, result=Explanation),
    PrivateRoute("jobs_cancel", "DELETE", JOB, jobs.cancel, status=204),
    PrivateRoute("jobs_output", "GET", f"{JOB}/output", logs.output, query=logs.OutputQuery, result="text/plain"),
    PrivateRoute(
        "jobs_output_stream",
        "GET",
        f"{JOB}/output/stream",
        logs.output_stream,
        stream=True,
        headers=("Last-Event-ID",),
        query=logs.OutputQuery,
        result=EVENT_STREAM,
    ),
    PrivateRoute(
        "events_list", "GET", f"{CLUSTER}/events", events.events, query=events.EventsQuery, result=HistoryPage
    ),
    PrivateRoute(
        "events_stream",
        "GET",
        f"{CLUSTER}/events/stream",
        events.events_stream,
        stream=True,
        headers=("Last-Event-ID",),
        result=EVENT_STREAM,
    ),
    AgentRoute(
        "agent_heartbeat", "POST", PATH, agent_heartbeat.heartbeat, body=AgentHeartbeat, result=AgentHeartbeatReply
    ),
    PublicRoute("api_routes", "GET", "/v1/api-routes", description.api_routes, result=description.ApiRoutes),
    PublicRoute("openapi", "GET", "/v1/openapi.json", description.openapi, result="application/json"),
)
