"""OAuth from a client's registration to its tokens' end, over the wire."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from http_door import KEY, WAIT, Load, Served, Talk, door
from mcp.client.auth import OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from mindhold.model.host import is_registered_redirect

VERIFIER = "a-verifier-of-the-length-that-is-asked-for-by-the-standard"
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
BACK = "https://client.example/callback"


@pytest.fixture
async def locked(load: Load) -> AsyncIterator[Served]:
    async with door(load(**{"serve.port": 0, "access_key": KEY, "toolsets": "all"})) as served:
        yield served


@dataclass(slots=True)
class Dance:
    """A client and the owner's browser, step by step. Cookies are the browser's."""

    client: httpx2.AsyncClient
    registered: dict[str, Any] = field(default_factory=dict)
    back: str = BACK

    async def register(self, **changes: Any) -> httpx2.Response:
        given = {
            "client_name": "Example",
            "redirect_uris": [self.back],
            "token_endpoint_auth_method": "none",
            **changes,
        }
        answer = await self.client.post("/register", json=given)
        self.registered = answer.json()
        return answer

    async def authorize(self, **changes: Any) -> httpx2.Response:
        given = {
            "client_id": self.registered.get("client_id", ""),
            "redirect_uri": self.back,
            "response_type": "code",
            "code_challenge": CHALLENGE,
            "code_challenge_method": "S256",
            "state": "the state",
            **changes,
        }
        return await self.client.get("/authorize", params={k: v for k, v in given.items() if v is not None})

    async def ask(self, **changes: Any) -> httpx2.Response:
        """The page that the owner sees."""
        answer = await self.authorize(**changes)
        assert answer.status_code == 302, answer.text
        return await self.client.get(answer.headers["location"])

    async def answer(self, page: httpx2.Response, **changes: Any) -> httpx2.Response:
        fields = dict(re.findall(r'name="(ticket|token)" value="([^"]*)"', page.text))
        given = {**fields, "scope": ticked(page), "answer": "allow", "key": KEY, **changes}
        return await self.client.post("/consent", data=given)

    async def code(self, **changes: Any) -> str:
        answer = await self.answer(await self.ask(**changes))
        assert answer.status_code == 303, answer.text
        return told(answer)["code"]

    async def redeem(self, code: str, /, **changes: Any) -> httpx2.Response:
        given = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.back,
            "client_id": self.registered["client_id"],
            "code_verifier": VERIFIER,
            **changes,
        }
        return await self.client.post("/token", data=given)

    async def refresh(self, token: str, /, **changes: Any) -> httpx2.Response:
        given = {"grant_type": "refresh_token", "refresh_token": token, **changes}
        return await self.client.post("/token", data={"client_id": self.registered["client_id"], **given})

    async def tokens(self, **changes: Any) -> dict[str, Any]:
        await self.register()
        answer = await self.redeem(await self.code(**changes))
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    async def opens(self, token: str) -> bool:
        answer = await self.client.get("/echo", headers={"Authorization": f"Bearer {token}"})
        assert answer.status_code in (200, 401)
        return answer.status_code == 200


def boxes(page: httpx2.Response) -> list[str]:
    """What the person is asked about, besides reading."""
    return re.findall(r'type="checkbox" name="scope" value="([^"]*)"', page.text)


def ticked(page: httpx2.Response) -> list[str]:
    """What is granted when the person changes nothing."""
    return re.findall(r'type="checkbox" name="scope" value="([^"]*)" checked', page.text)


def told(answer: httpx2.Response) -> dict[str, str]:
    """What the browser takes back to the client."""
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["location"]).query).items()}


@pytest.fixture
async def dance(locked: Served) -> AsyncIterator[Dance]:
    async with locked.client() as client:
        yield Dance(client)


async def test_a_client_finds_its_way_by_itself(locked: Served) -> None:
    async with locked.client() as client:
        refused = await client.post("/mcp")
        found = re.search(r'resource_metadata="([^"]+)"', refused.headers["www-authenticate"])
        assert found
        resource = (await client.get(found[1])).json()
        assert resource["resource"] == f"{locked.url}/mcp"
        [issuer] = resource["authorization_servers"]
        assert issuer == locked.url
        plain = (await client.get("/.well-known/oauth-protected-resource")).json()
        assert plain["resource"] == locked.url
        server = (await client.get(f"{issuer}/.well-known/oauth-authorization-server")).json()
    assert server["issuer"] == issuer
    assert server["code_challenge_methods_supported"] == ["S256"]
    assert server["token_endpoint_auth_methods_supported"] == ["none"]
    for name in ("authorization", "token", "registration", "revocation"):
        assert server[f"{name}_endpoint"].startswith(f"{issuer}/")


async def test_the_names_are_those_that_the_client_uses(locked: Served) -> None:
    host = f"localhost:{locked.port}"
    async with locked.client(host=host) as client:
        resource = (await client.get("/.well-known/oauth-protected-resource/mcp")).json()
    assert resource["resource"] == f"http://{host}/mcp"


async def test_a_grant_from_consent_to_a_tool(dance: Dance, locked: Served) -> None:
    tokens = await dance.tokens(resource=f"{locked.url}/mcp")
    assert tokens["token_type"] == "Bearer"
    assert tokens["expires_in"] <= 3_600
    async with locked.client(tokens["access_token"]) as client:
        talk = Talk(client)
        await talk.begin()
        kept = await talk.call("remember", content="The pond froze in January.", topic="pond", type="fact")
        assert not kept.get("isError")
        again = (await dance.refresh(tokens["refresh_token"])).json()
        client.headers["Authorization"] = f"Bearer {again['access_token']}"
        assert "froze" in str(await talk.call("recall", text="pond froze"))


async def test_the_answer_comes_back_with_state_and_issuer(dance: Dance, locked: Served) -> None:
    await dance.register()
    answer = await dance.answer(await dance.ask())
    assert answer.headers["location"].startswith(f"{BACK}?")
    assert told(answer)["state"] == "the state"
    assert told(answer)["iss"] == locked.url


async def test_the_owner_may_say_no(dance: Dance) -> None:
    await dance.register()
    page = await dance.ask()
    answer = await dance.answer(page, answer="deny", key="")
    assert answer.status_code == 303
    assert told(answer)["error"] == "access_denied"
    assert told(answer)["state"] == "the state"
    assert "code" not in told(answer)
    assert (await dance.answer(page)).status_code != 303


async def test_the_page_is_safe_to_look_at(dance: Dance) -> None:
    await dance.register(client_name='<script>alert("x")</script>')
    page = await dance.ask()
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "client.example" in page.text
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "form-action 'self' https://client.example" in policy
    assert page.headers["x-frame-options"] == "DENY"
    cookie = page.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert KEY not in page.text


async def test_only_the_key_says_yes(dance: Dance) -> None:
    await dance.register()
    page = await dance.ask()
    for wrong in ("", "wrong", KEY[:-1]):
        page = await dance.answer(page, key=wrong)
        assert page.status_code == 403
        assert "That is not the key." in page.text
    assert (await dance.answer(page)).status_code == 303


async def test_keys_can_not_be_tried_without_end(dance: Dance) -> None:
    await dance.register()
    page = await dance.ask()
    for _ in range(31):
        page = await dance.answer(page, key="wrong")
    assert page.status_code == 403
    assert "Too many" in page.text
    assert (await dance.answer(page)).status_code == 303, "wrong ones don't lock the right one out"


async def test_a_ticket_alone_answers_nothing(dance: Dance) -> None:
    await dance.register()
    page = await dance.ask()
    assert (await dance.answer(page, token="x")).status_code == 403
    dance.client.cookies.clear()
    assert (await dance.answer(page)).status_code == 403
    page = await dance.ask()
    foreign = {"Origin": "https://evil.example"}
    fields = dict(re.findall(r'name="(ticket|token)" value="([^"]*)"', page.text))
    answer = await dance.client.post(
        "/consent", data={**fields, "answer": "allow", "key": KEY}, headers=foreign
    )
    assert answer.status_code == 403
    assert (await dance.answer(page)).status_code == 303
    assert (await dance.answer(page)).status_code == 400
    assert (await dance.client.get("/consent?ticket=rt_unknown")).status_code == 400


async def test_without_a_key_a_button_is_enough_on_this_machine(load: Load) -> None:
    async with door(load(**{"serve.port": 0})) as served, served.client() as client:
        dance = Dance(client)
        await dance.register()
        page = await dance.ask()
        assert 'name="key"' not in page.text
        answer = await dance.answer(page, key="")
        assert answer.status_code == 303
        tokens = (await dance.redeem(told(answer)["code"])).json()
        assert await dance.opens(tokens["access_token"])


async def test_a_code_is_good_once_and_a_second_use_ends_the_grant(dance: Dance) -> None:
    await dance.register()
    code = await dance.code()
    tokens = (await dance.redeem(code)).json()
    assert await dance.opens(tokens["access_token"])
    again = await dance.redeem(code)
    assert (again.status_code, again.json()["error"]) == (400, "invalid_grant")
    assert not await dance.opens(tokens["access_token"])
    assert (await dance.refresh(tokens["refresh_token"])).status_code == 400


async def test_refresh_tokens_rotate_and_a_replay_ends_the_grant(dance: Dance) -> None:
    first = await dance.tokens()
    second = (await dance.refresh(first["refresh_token"])).json()
    assert second["refresh_token"] != first["refresh_token"]
    assert await dance.opens(second["access_token"])
    replay = await dance.refresh(first["refresh_token"])
    assert (replay.status_code, replay.json()["error"]) == (400, "invalid_grant")
    assert not await dance.opens(second["access_token"])
    assert (await dance.refresh(second["refresh_token"])).status_code == 400


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_verifier": "another-verifier-of-the-length-that-is-asked-for"}, "invalid_grant"),
        ({"redirect_uri": "https://client.example/elsewhere"}, "invalid_request"),
        ({"code": "rc_unknown"}, "invalid_grant"),
        ({"grant_type": "password"}, "invalid_request"),
    ],
    ids=["verifier", "redirect", "code", "grant type"],
)
async def test_a_code_needs_all_that_belongs_to_it(dance: Dance, changes: dict[str, str], error: str) -> None:
    await dance.register()
    answer = await dance.redeem(await dance.code(), **changes)
    assert (answer.status_code, answer.json()["error"]) == (400, error)


async def test_a_code_is_for_the_client_that_asked(dance: Dance) -> None:
    await dance.register()
    code = await dance.code()
    mine = dance.registered
    other = (await dance.register()).json()["client_id"]
    assert (await dance.redeem(code, client_id=other)).json()["error"] == "invalid_grant"
    assert (await dance.redeem(code, client_id="nobody")).status_code == 401
    dance.registered = mine
    assert (await dance.redeem(code)).status_code == 200


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
        ({"resource": "http://127.0.0.1:1/mcp"}, "invalid_target"),
    ],
    ids=["no challenge", "no hash", "plain", "implicit", "other audience", "other port"],
)
async def test_what_can_not_be_granted_goes_back_as_an_error(
    dance: Dance, changes: dict[str, Any], error: str
) -> None:
    await dance.register()
    answer = await dance.authorize(**changes)
    assert answer.status_code == 302
    assert answer.headers["location"].startswith(f"{BACK}?")
    assert told(answer)["error"] == error
    assert told(answer)["state"] == "the state"
    assert "iss" in told(answer)


@pytest.mark.parametrize(
    "changes",
    [{"redirect_uri": "https://evil.example/"}, {"client_id": "nobody"}, {"redirect_uri": f"{BACK}/more"}],
    ids=["redirect", "client", "longer"],
)
async def test_nothing_goes_to_a_place_that_was_not_registered(dance: Dance, changes: dict[str, str]) -> None:
    await dance.register()
    answer = await dance.authorize(**changes)
    assert answer.status_code == 400
    assert "location" not in answer.headers


async def test_an_app_on_this_machine_may_listen_at_any_port(dance: Dance) -> None:
    await dance.register(redirect_uris=["http://127.0.0.1:1234/callback"])
    dance.back = "http://127.0.0.1:4321/callback"
    answer = await dance.redeem(await dance.code())
    assert answer.status_code == 200
    for other in (
        "http://127.0.0.1:4321/other",
        "http://a:b@127.0.0.1:4321/callback",
        "http://127.0.0.1:4321/callback#f",
        "http://127.0.0.2:4321/callback",
        "https://127.0.0.1:4321/callback",
    ):
        refused = await dance.authorize(redirect_uri=other)
        assert refused.status_code == 400, other
        assert "location" not in refused.headers


@pytest.mark.parametrize(
    ("uri", "good"),
    [
        ("https://claude.ai/api/mcp/auth_callback", True),
        ("http://localhost:8080/callback", True),
        ("cursor://anysphere.cursor/callback", True),
        ("http://client.example/callback", False),
        ("javascript:alert(1)", False),
        ("data:text/html,x", False),
        ("https://client.example/#fragment", False),
    ],
)
async def test_where_a_client_may_be_sent_back_to(dance: Dance, uri: str, good: bool) -> None:
    answer = await dance.register(redirect_uris=[uri])
    assert answer.status_code == (201 if good else 400)
    if not good:
        assert answer.json()["error"] == "invalid_redirect_uri"


@pytest.mark.parametrize("method", [None, "client_secret_post", "client_secret_basic", "none"])
async def test_every_client_is_told_that_it_needs_no_secret(dance: Dance, method: str | None) -> None:
    answer = await dance.register(token_endpoint_auth_method=method, scope="claudeai openid")
    assert answer.status_code == 201
    assert dance.registered["token_endpoint_auth_method"] == "none"
    assert not dance.registered.get("client_secret")
    tokens = await dance.redeem(await dance.code())
    assert tokens.json()["scope"] == "memory:read memory:write"


@pytest.mark.parametrize(
    ("asked", "offered", "granted"),
    [
        (None, ["memory:write"], "memory:read memory:write"),
        ("", ["memory:write"], "memory:read memory:write"),
        ("memory:write", ["memory:write"], "memory:read memory:write"),
        ("openid memory:write", ["memory:write"], "memory:read memory:write"),
        ("openid profile", [], "memory:read"),
        ("memory:read", [], "memory:read"),
        ("memory:admin", ["memory:write", "memory:admin"], "memory:read memory:write"),
    ],
)
async def test_what_is_granted_unless_the_person_says_otherwise(
    dance: Dance, asked: str | None, offered: list[str], granted: str
) -> None:
    await dance.register()
    page = await dance.ask(scope=asked)
    assert boxes(page) == offered
    tokens = await dance.redeem(told(await dance.answer(page))["code"])
    assert tokens.json()["scope"] == granted


async def test_the_person_may_grant_less_and_never_more_than_was_asked(dance: Dance) -> None:
    await dance.register()
    page = await dance.answer(await dance.ask(), key="wrong", scope=[])
    assert ticked(page) == [], "what was taken away stays away"
    less = await dance.redeem(told(await dance.answer(page))["code"])
    assert less.json()["scope"] == "memory:read"
    more = await dance.answer(await dance.ask(scope="memory:read"), scope=["memory:write", "memory:admin"])
    assert (await dance.redeem(told(more)["code"])).json()["scope"] == "memory:read"


async def _who(dance: Dance, tokens: dict[str, Any]) -> dict[str, Any]:
    answer = await dance.client.get("/echo", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    found: dict[str, Any] = answer.json()
    return found


async def test_a_grant_is_not_the_owner(dance: Dance, locked: Served, home: Path) -> None:
    folder = home.parent / "claude" / "projects" / "-quay"
    folder.mkdir(parents=True)
    said = {"type": "user", "cwd": "/quay", "message": {"role": "user", "content": "The zeppelin is purple"}}
    line = said | {"sessionId": "s1", "timestamp": "2026-01-05T09:00:00Z"}
    (folder / "s1.jsonl").write_text(json.dumps(line), encoding="utf-8")
    tokens = await dance.tokens()
    who = await _who(dance, tokens)
    assert (who["owner"], who["bound"], who["writes"]) == (False, True, True)
    async with locked.client(tokens["access_token"]) as client:
        talk = Talk(client)
        await talk.begin()
        assert "purple" not in str(await talk.call("memory_recall", query="zeppelin"))
        for tool in ("backup_memory", "export_memory", "restore_memory", "memory_consolidate"):
            assert "REFUSED" in str(await talk.call(tool)), tool
        assert (await client.get("/metrics")).status_code == 403


@pytest.mark.parametrize("agent", ["system", "admin"])
async def test_a_grant_does_not_inherit_all_seeing_eyes(load: Load, agent: str) -> None:
    async with (
        door(load(**{"serve.port": 0, "access_key": KEY, "agent": agent})) as served,
        served.client() as client,
    ):
        dance = Dance(client)
        who = await _who(dance, await dance.tokens())
    assert (who["agent"], who["bound"]) == ("default", True)


async def test_who_may_manage_is_asked_in_plain_words(dance: Dance, locked: Served) -> None:
    await dance.register()
    page = await dance.ask(scope="memory:admin")
    for word in ("back up", "export", "restore", "upkeep", "past Claude Code conversations"):
        assert word in page.text
    answer = await dance.answer(page, scope=["memory:write", "memory:admin"])
    tokens = (await dance.redeem(told(answer)["code"])).json()
    assert tokens["scope"] == "memory:read memory:write memory:admin"
    assert (await _who(dance, tokens))["owner"] is True
    for path in ("oauth-authorization-server", "oauth-protected-resource/mcp"):
        offered = (await dance.client.get(f"/.well-known/{path}")).json()["scopes_supported"]
        assert offered == ["memory:read", "memory:write"], "clients ask for all that they are told of"


@pytest.mark.usefixtures("stopped_minutes")
async def test_registering_is_limited(dance: Dance) -> None:
    answers = [(await dance.register()).status_code for _ in range(21)]
    assert answers == [201] * 20 + [429]


@pytest.mark.usefixtures("stopped_minutes")
async def test_questions_are_limited(dance: Dance) -> None:
    await dance.register()
    answers = [(await dance.authorize()).status_code for _ in range(21)]
    assert answers == [302] * 20 + [429]


async def test_a_grant_to_read_can_not_write(dance: Dance, locked: Served) -> None:
    tokens = await dance.tokens(scope="memory:read")
    assert tokens["scope"] == "memory:read"
    echo = await dance.client.get("/echo", headers={"Authorization": f"Bearer {tokens['access_token']}"})
    assert (echo.json()["writes"], echo.json()["owner"]) == (False, False)
    more = await dance.refresh(tokens["refresh_token"], scope="memory:read memory:write")
    assert more.json()["error"] == "invalid_scope"


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
async def test_revoking_one_token_ends_the_grant(dance: Dance, which: str) -> None:
    tokens = await dance.tokens()
    assert await dance.opens(tokens["access_token"])
    mine = dance.registered["client_id"]
    other = (await dance.register()).json()["client_id"]
    for client, held in ((other, True), (mine, False), (mine, False)):
        answer = await dance.client.post("/revoke", data={"token": tokens[which], "client_id": client})
        assert answer.status_code == 200
        assert await dance.opens(tokens["access_token"]) is held
    dance.registered["client_id"] = mine
    assert (await dance.refresh(tokens["refresh_token"])).status_code == 400


async def test_a_token_for_another_place_opens_nothing(dance: Dance, locked: Served) -> None:
    await dance.register()
    for resource, good in (
        (f"{locked.url}/mcp", True),
        (f"http://localhost:{locked.port}/mcp", True),
        ("https://other.example/mcp", False),
        (f"{locked.url}/elsewhere", False),
        (None, False),
    ):
        asked: dict[str, Any] = {
            "code_challenge": CHALLENGE,
            "redirect_uri": BACK,
            "resource": resource,
            "scopes": [],
        }
        opened = await locked.run("open_consent", client_id=dance.registered["client_id"], params=asked)
        granted = await locked.run("grant_code", ticket=opened.ticket)
        pair = await locked.run("redeem_code", code=granted.code)
        assert await dance.opens(pair.access_token) is good, resource
        assert not await dance.opens(pair.refresh_token)


async def test_behind_a_proxy_the_public_address_is_told(load: Load) -> None:
    changes = {"serve.port": 0, "access_key": KEY, "serve.public_url": "https://memory.example"}
    async with door(load(**changes)) as served, served.client(host="memory.example") as client:
        server = (await client.get("/.well-known/oauth-authorization-server")).json()
        assert server["issuer"] == "https://memory.example"
        dance = Dance(client)
        await dance.register()
        page = await dance.ask(resource="https://memory.example/mcp")
        cookie = page.headers["set-cookie"]
        assert "secure" in cookie.lower()
        client.headers["Cookie"] = cookie.partition(";")[0]  # which no browser sends over plain http
        tokens = (await dance.redeem(told(await dance.answer(page))["code"])).json()
        assert await dance.opens(tokens["access_token"])


async def test_tokens_do_not_travel_in_the_open(load: Load) -> None:
    changes = {"serve.port": 0, "access_key": KEY, "serve.allowed_hosts": "memory.lan"}
    async with door(load(**changes)) as served, served.client(host="memory.lan") as client:
        for path in ("/.well-known/oauth-authorization-server", "/authorize", "/consent"):
            assert (await client.get(path)).status_code == 404
        assert "resource_metadata" not in (await client.get("/echo")).headers["www-authenticate"]


class Pocket:
    """Where the official client keeps what it was given."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_the_official_client_comes_in_by_itself(dance: Dance, locked: Served, name: str) -> None:
    base = f"http://{name}:{locked.port}"
    dance.client.base_url = httpx2.URL(base)
    returned: dict[str, str] = {}

    async def browse(url: str) -> None:
        asked = await dance.client.get(url)
        page = await dance.client.get(asked.headers["location"])
        returned.update(told(await dance.answer(page)))

    async def come_back() -> AuthorizationCodeResult:
        return AuthorizationCodeResult(**returned)

    about = OAuthClientMetadata(
        client_name="official", redirect_uris=[AnyUrl("http://localhost:3030/callback")]
    )
    auth = OAuthClientProvider(f"{base}/mcp", about, Pocket(), browse, come_back)
    async with (
        httpx2.AsyncClient(auth=auth, timeout=WAIT) as http,
        streamable_http_client(f"{base}/mcp", http_client=http) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        assert "remember" in [tool.name for tool in (await session.list_tools()).tools]


@pytest.mark.parametrize(
    ("registered", "asked", "fits"),
    [
        ("https://e.example", "https://e.example", True),
        ("https://e.example", "https://e.example/", True),
        ("https://e.example/", "https://e.example/other", False),
        ("http://localhost", "http://localhost:7777", True),
        ("http://localhost/cb", "http://localhost:7777/cb", True),
        ("http://localhost/cb", "http://localhost:7777/other", False),
        ("https://e.example/cb", "https://e.example:444/cb", False),
        ("app.scheme:/cb", "app.scheme:/cb", True),
    ],
)
def test_where_codes_may_be_sent(registered: str, asked: str, fits: bool) -> None:
    assert is_registered_redirect(asked, [registered]) is fits
