"""The routes of what the caller gets mails about."""

from aiohttp import web
from clusterra_contracts.notifications import Choices
from pydantic import StrictBool

from clusterra_gateway.http.answers.responses import ResponseBody, json_response
from clusterra_gateway.http.requests.parameters import Body, body
from clusterra_gateway.identity.access.authentication import Caller
from clusterra_gateway.identity.access.private_route import Needs, caller_routes
from clusterra_gateway.people.notifications import Notifications

NOTIFICATIONS = "/v1/users/me/notifications"

api = caller_routes(reads=Needs("profile"))


class ChosenNotifications(Body):
    """What the caller gets a mail about. A field that is missing is false."""

    jobs_started: StrictBool = False
    """A job of their own starts."""
    jobs_ended: StrictBool = False
    """A job of their own ends, however it does."""
    jobs_failed: StrictBool = False
    """A job of their own fails or reaches its time limit."""
    sessions_ready: StrictBool = False
    """The page of an interactive session of their own can be opened."""
    runs_ended: StrictBool = False
    """A run of a workflow of their own ends."""
    budgets: StrictBool = False
    """A budget reaches a threshold: their own one, and for admins those of accounts and of the workspace."""


class NotificationsView(ResponseBody):
    """What the caller gets a mail about, and where it goes to."""

    enabled: bool
    """Whether this installation sends mails at all. A choice is kept in any case."""
    address: str
    """The address of the caller's account, to which alone mails go. Empty for a service account, which gets none."""
    jobs_started: bool
    jobs_ended: bool
    jobs_failed: bool
    sessions_ready: bool
    runs_ended: bool
    budgets: bool

    @classmethod
    def of(cls, caller: Caller, choices: Choices, *, enabled: bool) -> "NotificationsView":
        """The choices of a caller."""
        address = caller.member.email if caller.member.kind == "person" else ""
        return cls.showing(choices, address=address, enabled=enabled)


class NotificationHandlers:
    """The handlers of notifications."""

    def __init__(self, notifications: Notifications, *, enabled: bool) -> None:
        """`enabled`: whether mails are sent."""
        self._notifications = notifications
        self._enabled = enabled

    @api.get("notifications_get", NOTIFICATIONS, result=NotificationsView)
    async def get(self, _request: web.Request, caller: Caller) -> web.StreamResponse:
        """Returns what the caller gets a mail about, besides the jobs whose `--mail-type` asks for it."""
        choices = await self._notifications.of(caller.member.id)
        return json_response(NotificationsView.of(caller, choices, enabled=self._enabled))

    @api.put("notifications_replace", NOTIFICATIONS, body=ChosenNotifications, result=NotificationsView)
    async def replace(self, request: web.Request, caller: Caller) -> web.StreamResponse:
        """Replaces what the caller gets a mail about. It holds within a minute.

        Mails go to the address of the caller's account only. An array is told by its first failure, and by digests.
        """
        wanted = await body(request, ChosenNotifications)
        choices = Choices.model_validate(wanted.model_dump())
        await self._notifications.replace(caller.member.id, choices)
        return json_response(NotificationsView.of(caller, choices, enabled=self._enabled))
