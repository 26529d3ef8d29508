"""The doctor checks every issuer that the gateway serves, each by the rules of its kind."""

import aiohttp
from aiohttp import web
from clusterra_admin.doctor.issuer import check_issuer, further_issuers
from clusterra_gateway.identity.sign_in.login import ServedIssuer, ServedIssuerList
from clusterra_lab.machine.ports import free_port
from issuer_stand_in import issuer_stand_in

DEFAULT = ServedIssuer(name="default", issuer="https://id.example", kind="oidc", default=True)
ENTRA = ServedIssuer(name="entra", issuer="https://login.example/common/v2.0", kind="entra", default=False)


async def test_the_further_issuers_are_those_that_the_gateway_lists() -> None:
    async def listed(_request: web.Request) -> web.Response:
        return web.json_response(text=ServedIssuerList(issuers=(DEFAULT, ENTRA)).model_dump_json())

    app, port = web.Application(), free_port()
    app.router.add_get("/v1/auth/issuers", listed)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        async with aiohttp.ClientSession() as http:
            assert await further_issuers(http, f"http://127.0.0.1:{port}/", 10.0) == (ENTRA,)
            assert await further_issuers(http, f"http://127.0.0.1:{port}/elsewhere", 10.0) == ()
    finally:
        await runner.cleanup()
    async with aiohttp.ClientSession() as http:
        assert await further_issuers(http, f"http://127.0.0.1:{port}", 10.0) == ()


async def test_the_document_for_several_directories_is_right_for_entra_alone() -> None:
    async with issuer_stand_in() as stand_in, aiohttp.ClientSession() as http:
        stand_in.discovered = {"issuer": f"{stand_in.address}/{{tenantid}}/v2.0"}
        issuer = f"{stand_in.address}/common/v2.0"

        entra = {each.check: each.status for each in await check_issuer(http, issuer, "entra")}
        oidc = {each.check: each.status for each in await check_issuer(http, issuer)}

    assert (entra["issuer.name"], entra["issuer.keys"]) == ("ok", "ok")
    assert oidc["issuer.name"] == "failure"
