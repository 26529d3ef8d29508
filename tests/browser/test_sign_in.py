"""A person signs in with the provider's own pages, and others begin with a session that the lab made."""

from clusterra_lab.stack.stack import Stack

from browser.conftest import Person
from browser.people import Visitor
from browser.playwright_api import expect

API_PAGE = "/v1/docs"


async def test_a_person_signs_in_and_comes_back_to_the_page(lab: Stack, visitor: Visitor) -> None:
    login = lab.oidc.logins["ada@acme.example"]
    visitor.guards.leave_to(lab.oidc.issuer)

    await visitor.page.goto(f"/v1/auth/login?return_to={API_PAGE}")
    await visitor.sign_in(login.subject, login.password_file.read_text().strip())
    await visitor.page.wait_for_url(f"{lab.gateway_url}{API_PAGE}")
    await expect(visitor.page.get_by_role("heading", name="Clusterra")).to_be_visible()

    profile = await visitor.page.request.get("/v1/users/me")
    assert (await profile.json())["email"] == login.email


async def test_a_page_of_a_member_has_the_session(person: Person) -> None:
    grace = await person("grace")

    await grace.page.goto(API_PAGE)
    await expect(grace.page.get_by_role("heading", name="Clusterra")).to_be_visible()
    email = await grace.page.evaluate("async () => (await (await fetch('/v1/users/me')).json()).email")

    assert email == "grace@acme.example"


async def test_two_people_have_a_session_each(person: Person) -> None:
    ada, eve = await person("ada"), await person("eve@globex.example")

    seen = [await (await each.page.request.get("/v1/users/me")).json() for each in (ada, eve)]

    assert [each["email"] for each in seen] == ["ada@acme.example", "eve@globex.example"]
