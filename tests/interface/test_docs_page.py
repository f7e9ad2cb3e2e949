"""The page at /docs, the document beside it, and the way there: open to everybody, and in need of nobody else."""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from html.parser import HTMLParser

import httpx2
import pytest
from mcp_clients import WAIT, HttpServer

from mindhold.contracts.rest.openapi import openapi_document

KEY = "a-long-access-key-of-the-page"


class Read(HTMLParser):
    """Every tag of a page with its marks, and whether they close in order."""

    VOID = frozenset({"meta", "link"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {"style": [], "script": []}
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, self.getpos()

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in self.texts:
            self.texts[self.open[-1]].append(data)

    def values(self, name: str) -> list[str]:
        return [str(marks[name]) for _, marks in self.tags if name in marks]


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    home = tmp_path_factory.mktemp("page") / "home"
    with (
        HttpServer(home, MINDHOLD_ACCESS_KEY=KEY) as server,
        httpx2.Client(base_url=server.url, timeout=WAIT) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def page(http: httpx2.Client) -> Read:
    return Read(http.get("/docs").text)


def test_the_document_is_for_everybody_and_is_kept(http: httpx2.Client) -> None:
    assert http.get("/api/projects").status_code == 401
    first = http.get("/openapi.json")
    assert first.json() == openapi_document()
    assert first.headers["content-type"] == "application/json"
    again = http.get("/openapi.json", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = http.get("/openapi.json", headers={"If-None-Match": '"another"'})
    assert other.status_code == 200


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json"])
def test_only_reading_is_offered(http: httpx2.Client, path: str) -> None:
    refused = http.post(path)
    assert refused.status_code == 405
    assert refused.json()["code"] == "METHOD_NOT_ALLOWED"
    assert http.head(path).status_code == 200


def test_the_front_leads_on(http: httpx2.Client) -> None:
    told = http.get("/").json()
    for place in ("docs", "openapi", "health"):
        assert http.get(told[place]).status_code == 200
    led = http.get("/", headers={"Accept": "text/html,application/xhtml+xml"})
    assert (led.status_code, led.headers["location"]) == (307, "/docs")


def test_a_browser_runs_what_is_on_the_page_and_nothing_else(http: httpx2.Client, page: Read) -> None:
    policy = http.get("/docs").headers["content-security-policy"]
    parts = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert parts["default-src"] == parts["base-uri"] == parts["frame-ancestors"] == "'none'"
    assert parts["connect-src"] == parts["style-src"] == "'self'"
    [script] = page.texts["script"]
    made = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert parts["script-src"] == f"'self' 'sha256-{made}'"
    assert not page.texts["style"]
    assert not page.values("style")
    assert not [name for _, marks in page.tags for name in marks if name.startswith("on")]


def test_needs_nothing_from_elsewhere(http: httpx2.Client, page: Read) -> None:
    files = [*page.values("src"), *page.values("href")]
    assert {"/docs/files/swagger_bundle.js", "/docs/files/swagger_style.css"} <= set(files)
    for path in files:
        assert path.startswith("/")
        first = http.get(path)
        assert first.status_code == 200
        again = http.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    style = http.get("/docs/files/swagger_style.css").text
    assert not re.search(r"@import|url\((?!\s*[\"']?data:)", style)


def test_other_files_are_not_served(http: httpx2.Client) -> None:
    for path in ("/docs/nothing.js", "/docs/files/nothing.js", "/docs/files/%2e%2e/starlette/routing.py"):
        assert http.get(path).status_code == 404


def test_tags_close_in_order(page: Read) -> None:
    assert not page.open
