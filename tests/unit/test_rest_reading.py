"""What a request says, read strictly; paths as they were sent; versions; readers who leave."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect, Request
from starlette.routing import Match
from starlette.types import Message

from mindhold.contracts.rest.resource import Resource
from mindhold.interfaces.http.context import HttpContext
from mindhold.interfaces.http.rest.requests import (
    InvalidJson,
    UnsupportedMedia,
    body_of,
    conditions,
    etag_of,
    header,
    is_known,
    parse_json,
    path_names,
    path_of,
    query_of,
)
from mindhold.interfaces.http.rest.routes import ResourceEndpoint, rest_routes, while_waited_for
from mindhold.model.errors import InvalidInput, MemoryNotFound


def row(method: str, path: str, operation: str = "show", **more: Any) -> Resource:
    return Resource("", f"{method} {path}", operation, "", **more)


SHOW = row("GET", "/api/memories/{id}", versioned=True)
AMEND = row("PATCH", "/api/memories/{id}", "amend", versioned=True)
SEARCH = row("POST", "/api/memories/search", "recall")
FORGET = row("DELETE", "/api/memories/{id}", "forget", names={"id": "ids"})
LINKS = row("GET", "/api/memories/{id}/links")
ROUTES = rest_routes(cast(HttpContext, None), [SHOW, AMEND, SEARCH, FORGET, LINKS])


JSON = {"content-type": "application/json"}


def asked(
    method: str = "POST",
    path: bytes = b"/api",
    *,
    query: bytes = b"",
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Request:
    sent = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
    scope = {"type": "http", "method": method, "path": path.decode(), "raw_path": path}
    told = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return told.pop() if told else {"type": "http.disconnect"}

    return Request({**scope, "query_string": query, "headers": sent}, receive)


# Paths


def found_at(path: bytes) -> tuple[ResourceEndpoint, dict[str, str]] | None:
    """What serves a path, and the names in it."""
    scope = asked(path=path).scope
    scope["path"] = path_of(scope)
    for route in ROUTES:
        match, child_scope = route.matches(scope)
        if match is Match.FULL:
            return child_scope["endpoint"], path_names(child_scope)
    return None


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (b"/api/memories/a%2Fb", ("a/b",)),
        (b"/api/memories/a%2fb/", ("a/b",)),
        (b"/api/memories/%E4%BA%8C%20%F0%9F%A6%8A+", ("二 🦊+",)),
        (b"/api/memories/%2E%2E", ("..",)),
        (b"/api/memories/%252F", ("%2F",)),
        (b"/%61pi/memories/100%", ("100%",)),
        (b"/api/memories/search/links", ("search",)),
    ],
)
def test_names_are_what_was_sent(path: bytes, values: tuple[str, ...]) -> None:
    found = found_at(path)
    assert found is not None
    assert tuple(found[1].values()) == values


@pytest.mark.parametrize(
    "path",
    [
        b"/api",
        b"/api/",
        b"/api/memories",
        b"/api/memories//links",
        b"/api/memories/a/b",
        b"/api%2Fmemories/a",
    ],
)
def test_where_nothing_is(path: bytes) -> None:
    assert found_at(path) is None


@pytest.mark.parametrize("path", [b"/api/memories/%00", b"/api/memories/%ff", b"/api/memories/%ED%A0%80"])
def test_what_is_no_name(path: bytes) -> None:
    with pytest.raises(InvalidInput):
        path_of(asked(path=path).scope)


def test_fixed_words_come_before_free_ones() -> None:
    fixed, free = found_at(b"/api/memories/search"), found_at(b"/api/memories/x")
    assert fixed is not None
    assert free is not None
    assert fixed[0].allowed == "OPTIONS, POST"
    assert free[0].allowed == "DELETE, GET, HEAD, OPTIONS, PATCH"
    assert free[1] == {"id": "x"}


def test_a_server_that_does_not_tell_the_path_as_it_was_sent() -> None:
    assert path_of({"path": "/api/memories/ä b"}) == "/api/memories/ä b"


# Bodies


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        (b'{"a": 1}', {"a": 1}),
        (b'\xef\xbb\xbf{"a": "\xc3\xa4"}', {"a": "ä"}),
        (b'{"a": "x\\ud83d y", "\\udc00": ["\\ud83e\\udd8a"]}', {"a": "x\ufffd y", "\ufffd": ["🦊"]}),
        (b'{"a": 9223372036854775807, "b": -9223372036854775807}', {"a": 2**63 - 1, "b": 1 - 2**63}),
        (b'{"a": 1e300, "b": "12345678901234567890"}', {"a": 1e300, "b": "12345678901234567890"}),
        (b'{"a": "\\u0000"}', {"a": "\x00"}),
        (b"[" * 100 + b"]" * 100, None),
    ],
)
def test_json_is_read(raw: bytes, found: Any) -> None:
    assert parse_json(raw) == (json.loads(raw) if found is None else found)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b'{"a": 1,\n  "b": }', "line 2, column 8"),
        (b'{"a":\n\n "\xff"}', "line 3, column 3: not UTF-8"),
        (b"{'a': 1}", "line 1, column 2"),
        (b'{"a": NaN}', "NaN is no number"),
        (b'{"a": -Infinity}', "-Infinity is no number"),
        (b'{"a": 1e999}', "too large"),
        (b'{"a": [-1E+4000]}', "too large"),
        (b'{"a": 9223372036854775808}', "too large"),
        (b'{"a": 1' + b"0" * 5_000 + b"}", "too large"),
        (b"[" * 101 + b"]" * 101, "levels deep"),
        (b'{"a":' * 200_000, "levels deep"),
        (b"[" * 200_000, "levels deep"),
        (b'{"a": 1} x', "line 1, column 10"),
    ],
)
def test_what_is_no_json(raw: bytes, told: str) -> None:
    with pytest.raises(InvalidJson, match=told) as raised:
        parse_json(raw)
    assert raised.value.code == "INVALID_JSON"


@given(st.binary(max_size=60))
def test_no_bytes_do_harm(raw: bytes) -> None:
    try:
        found = parse_json(raw)
    except InvalidJson:
        return
    json.dumps(found).encode("utf-8")


@pytest.mark.parametrize("body", [b'{"a": 1, "a": 2}', b'{"m": {"b": 1, "c": 2, "\\u0062": 1}}'])
def test_a_word_is_given_once(body: bytes) -> None:
    with pytest.raises(InvalidJson, match="twice"):
        parse_json(body)
    assert parse_json(b'{"a": {"a": 1}, "b": [{"a": 1}, {"a": 1}]}')


@pytest.mark.parametrize(
    "kind",
    ["application/json", "Application/JSON; charset=UTF-8", 'application/x+json;charset="utf-8"'],
)
async def test_kinds_of_bodies_that_are_read(kind: str) -> None:
    headers = {"content-type": kind}
    assert await body_of(SEARCH, asked(body=b'{"query": "a"}', headers=headers)) == {"query": "a"}


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=utf-16"},
        {"content-type": "application/json", "content-encoding": "gzip"},
        {"content-type": ""},
        {},
    ],
)
async def test_kinds_of_bodies_that_are_not(headers: dict[str, str]) -> None:
    with pytest.raises(UnsupportedMedia):
        await body_of(SEARCH, asked(body=b"{}", headers=headers))


async def test_a_body_may_be_left_out_and_must_be_where_none_is_taken() -> None:
    assert await body_of(SEARCH, asked(body=b" \n", headers={"content-type": "text/plain"})) == {}
    assert await body_of(FORGET, asked("DELETE")) is None
    assert await body_of(FORGET, asked("DELETE", body=b"{}", headers=JSON)) is None
    with pytest.raises(InvalidInput, match="No body"):
        await body_of(FORGET, asked("DELETE", body=b'{"ids": ["a"]}', headers=JSON))
    for body in (b"[]", b"7", b'"a"', b"null"):
        with pytest.raises(InvalidInput, match="JSON object"):
            await body_of(SEARCH, asked(body=body, headers=JSON))


# Queries and headers


def test_queries() -> None:
    assert query_of(asked(query=b"")) == []
    assert query_of(asked(query=b"a=1&a=2&b=&c=%C3%A4+%2B")) == [
        ("a", "1"),
        ("a", "2"),
        ("b", ""),
        ("c", "ä +"),
    ]


@pytest.mark.parametrize("query", [b"a=%ff", b"a=%00", b"a=\xff", b"a=1&" * 1_100])
def test_queries_that_are_none(query: bytes) -> None:
    with pytest.raises(InvalidInput):
        query_of(asked(query=query))


def test_headers_are_utf_8_and_given_once() -> None:
    request = asked(headers={"x-mindhold-agent": "Grün"})
    assert header(request, "x-mindhold-agent") == "Grün"
    assert header(request, "idempotency-key") is None
    request.scope["headers"] += [(b"x-mindhold-agent", b"a"), (b"idempotency-key", b"\xff")]
    for name in ("x-mindhold-agent", "idempotency-key"):
        with pytest.raises(InvalidInput):
            header(Request(request.scope), name)


# Versions


@pytest.mark.parametrize(("match", "expected"), [('"1-a"', "1-a"), (" * ", "*"), ('""', "")])
def test_a_version_that_is_insisted_on(match: str, expected: str) -> None:
    assert conditions(AMEND, asked(headers={"if-match": match})) == {"expected": expected}


@pytest.mark.parametrize("match", ["1-a", '"a", "b"', '"a" b', "", '"', 'W/"1-a"'])
def test_a_condition_that_is_none(match: str) -> None:
    with pytest.raises(InvalidInput):
        conditions(AMEND, asked(headers={"if-match": match}))


def test_no_condition_is_passed_over() -> None:
    assert conditions(AMEND, asked()) == {}
    assert conditions(SHOW, asked("GET", headers={"if-match": '"a"'})) == {}
    for condition in ({"if-match": '"a"'}, {"if-none-match": "*"}):
        with pytest.raises(InvalidInput):
            conditions(FORGET, asked("DELETE", headers=condition))


def test_a_version_that_is_known() -> None:
    for known in ('"1-a"', 'W/"1-a"', '"x", "1-a"', "*"):
        assert is_known('"1-a"', asked("GET", headers={"if-none-match": known})), known
    for known in ('"1-b"', "1-a", ""):
        assert not is_known('"1-a"', asked("GET", headers={"if-none-match": known})), known
    assert not is_known(None, asked("GET", headers={"if-none-match": "*"}))
    assert not is_known('"1-a"', asked("GET"))


def test_only_what_is_versioned_tells_a_version() -> None:
    answer = AMEND.serves.gives.model_construct(id="a", etag="1-a")
    assert etag_of(AMEND, answer) == '"1-a"'
    assert etag_of(SEARCH, answer) is None


# Who leaves


async def test_what_is_read_for_nobody_is_given_up() -> None:
    stopped = asyncio.Event()

    async def reading() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    request = asked()
    await request.body()
    with pytest.raises(ClientDisconnect):
        await while_waited_for(request, reading(), soon=0)
    assert stopped.is_set()


async def test_who_waits_gets_the_answer_or_the_error() -> None:
    going = asyncio.Event()

    async def reading(error: Exception | None) -> int:
        await going.wait()
        if error is not None:
            raise error
        return 7

    async def never() -> Message:
        going.set()
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    request = Request(asked().scope, never)
    assert await while_waited_for(request, reading(None), soon=0) == 7
    with pytest.raises(MemoryNotFound):
        await while_waited_for(request, reading(MemoryNotFound("a")), soon=0)
