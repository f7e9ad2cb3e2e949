"""Requests that the OpenAPI document allows, and such as it forbids: every answer is one that it names, and none is a fault.

Schemathesis makes them up, the same ones every time, and a real server answers. What a request could destroy is there
only for that; the project that is asked about is made anew before each row.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from mcp_clients import WAIT, HttpServer
from schemathesis import Case, GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from mindhold.contracts.rest.openapi import codes_of, openapi_document, resolve_reference
from mindhold.contracts.rest.resource import Resource, resources
from mindhold.model.errors import InvalidInput

PROJECT, SCOPE, MEMORY = "shop", "work", "memory"
EXAMPLES = {GenerationMode.POSITIVE: 4, GenerationMode.NEGATIVE: 3}
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
ENDLESS = {"events"}  # streams that end with the client alone
ROWS = [row for row in resources() if row.stream not in ENDLESS]
SERVED = {
    (one.ok().path, one.ok().method.upper()): one.ok()
    for one in schemathesis.openapi.from_dict(openapi_document()).get_all_operations()
}


@schemathesis.serializer("application/x-ndjson")
def as_lines(_context: Any, value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


@dataclass(slots=True)
class Place:
    """A server, and what is there to be asked about."""

    url: str
    http: httpx2.Client
    session: requests.Session
    known: dict[str, str] = field(default_factory=dict)  # nothing while it may have been destroyed

    def prepare(self) -> None:
        """Whatever was destroyed is there again."""
        for path, name in (("/api/projects", PROJECT), ("/api/scopes", SCOPE)):
            assert self.http.post(path, json={"name": name}).status_code in (200, 201, 409)
        assert self.http.patch(f"/api/scopes/{SCOPE}", json={"active": True}).status_code == 200
        said = {"content": "The staging server listens on port 8443.", "scope": SCOPE, "tags": ["network"]}
        memory = self.http.post("/api/memories", json=said)
        assert memory.status_code in (200, 201), memory.text
        said = {"message_type": "user", "content": "Which port does staging use?", "task_id": 42}
        message = self.http.post(f"/api/projects/{PROJECT}/memory/messages", json=said)
        assert message.status_code == 201, message.text
        self.known = {
            "project_id": PROJECT,
            "name": SCOPE,
            "id": memory.json()["id"],
            "message_id": message.json()["message_id"],
        }


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home: Path = tmp_path_factory.mktemp("schema") / "home"
    with (
        HttpServer(home, MINDHOLD_SERVE_REQUESTS_PER_MINUTE="0") as server,
        httpx2.Client(base_url=server.url, timeout=WAIT) as http,
        requests.Session() as session,
    ):
        yield Place(server.url, http, session)


def can_be_wrong(row: Resource) -> bool:
    """Whether anything about it can: a text can't, nor a body whose lines are told one by one what is wrong with them."""
    if row.stream == "import":
        return False
    said = [
        one["schema"]
        for one in map(resolve_reference, told(row).get("parameters", ()))
        if one["in"] != "header"
    ]
    return bool(row.in_body()) or any(one.get("type") != "string" or "format" in one for one in said)


def told(row: Resource) -> dict[str, Any]:
    found: dict[str, Any] = openapi_document()["paths"][row.path][row.method.lower()]
    return found


def is_only_spelt_otherwise(row: Resource, request: requests.PreparedRequest) -> bool:
    """Whether it says what it means in another type than the document has: 0.0 for false, "5" for 5. That is understood."""
    sent = parse_qsl(urlsplit(request.url or "").query, keep_blank_values=True)
    try:
        body = json.loads(request.body or "{}")
        given = row.given(dict.fromkeys(row.in_path(), "1"), sent, body)
    except (InvalidInput, ValueError, TypeError):
        return False
    if not isinstance(body, dict):
        return False
    meant = given.model_dump(mode="json")
    said = [(row.fields()[word], value) for word, value in (*sent, *body.items())]
    return all(is_same(meant[name], value) for name, value in said)


def is_same(meant: Any, said: Any) -> bool:
    """A time may also be said in seconds; of a list in the query, each is said alone."""
    if isinstance(meant, list) and not isinstance(said, list):
        return any(is_same(one, said) for one in meant)
    in_seconds = isinstance(meant, str) and "T" in meant and not str(said).strip("-.eE0123456789")
    return meant == said or str(meant).lower() == str(said).lower() or in_seconds


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_answers_what_is_right_as_the_document_says(place: Place, row: Resource) -> None:
    ask(place, row, GenerationMode.POSITIVE)


@pytest.mark.parametrize("row", [row for row in ROWS if can_be_wrong(row)], ids=lambda row: row.name)
def test_refuses_what_is_wrong_as_the_document_says(place: Place, row: Resource) -> None:
    ask(place, row, GenerationMode.NEGATIVE)


def ask(place: Place, row: Resource, mode: GenerationMode) -> None:
    operation = SERVED[row.path, row.method]
    if not place.known:
        place.prepare()
    aimed = {word: place.known[word] for word in row.in_path() if word in place.known}
    wild = operation.as_strategy(generation_mode=mode)
    # What is aimed at something that is there gets further than to "not found".
    made = operation.as_strategy(generation_mode=mode, path_parameters=aimed) | wild if aimed else wild

    @settings(
        max_examples=EXAMPLES[mode],
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=made)
    def asked(case: Case) -> None:
        response = case.call(base_url=place.url, session=place.session, timeout=WAIT)
        assert response.status_code != 500, f"{case.as_curl_command()}\n{response.text}"
        case.validate_response(response, checks=CHECKS)
        if mode is GenerationMode.NEGATIVE and not is_only_spelt_otherwise(row, response.request):
            case.validate_response(response, checks=[negative_data_rejection])
        if response.status_code >= 400:
            code = response.json()["code"]
            assert code in codes_of(told(row), response.status_code), (
                f"{response.status_code} {response.text}"
            )

    asked()
    if row.writes:
        place.known = {}
