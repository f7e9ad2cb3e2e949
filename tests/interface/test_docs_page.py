"""The page at /docs, the document beside it, and the way there: open to everybody, and in need of nobody else."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_clients import WAIT, HttpServer

from mindhold.contracts.rest.openapi import openapi_document
from mindhold.interfaces.http.rest.docs_page import BASE, python_of
from mindhold.model.errors import Conflict, NotFound, Refused, SettingsError

KEY = "a-long-access-key-of-the-page"


class Read(HTMLParser):
    """Every tag of a page with its marks, and whether they close in order."""

    VOID = frozenset({"meta", "input", "br"})

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
    assert parts["connect-src"] == "'self'"
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        [text] = page.texts[tag]
        made = b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert parts[directive] == f"'sha256-{made}'"
    assert not page.values("style")
    assert not [name for _, marks in page.tags for name in marks if name.startswith("on")]


def test_needs_nothing_from_elsewhere(page: Read) -> None:
    assert not page.values("src")
    assert all(one.startswith(("#", "/")) for one in page.values("href"))
    [style] = page.texts["style"]
    assert not re.search(r"url\(|@import", style)


def test_every_operation_is_on_it_and_every_link_leads_somewhere(page: Read) -> None:
    ids = Counter(page.values("id"))
    assert [one for one, times in ids.items() if times > 1] == []
    named = [
        one["operationId"] for methods in openapi_document()["paths"].values() for one in methods.values()
    ]
    assert set(named) <= set(ids)
    assert {one[1:] for one in page.values("href") if one.startswith("#")} <= set(ids)
    assert not page.open


def test_every_field_has_a_label(page: Read) -> None:
    labelled = {marks["for"] for tag, marks in page.tags if tag == "label" and "for" in marks}
    fields: list[dict[str, Any]] = [
        marks for tag, marks in page.tags if tag in ("input", "select", "textarea") and "data-in" in marks
    ]
    assert fields
    assert {marks["id"] for marks in fields} <= labelled


def test_headings_follow_one_another(page: Read) -> None:
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))


def test_every_sample_in_python_is_understood(
    http: httpx2.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    made = http.post("/api/projects", json={"name": "proj_123"}, headers={"Authorization": f"Bearer {KEY}"})
    assert made.status_code == 201, made.text
    told = [one for methods in openapi_document()["paths"].values() for one in methods.values()]
    for operation in told:
        if operation["operationId"] == "events" or "Server" in operation["tags"]:
            continue
        text = python_of(operation).replace(f'"{BASE}"', f'"{http.base_url}", key="{KEY}"')
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                exec(text, {})
        except (NotFound, Conflict, Refused, SettingsError):
            continue  # what it names isn't there
