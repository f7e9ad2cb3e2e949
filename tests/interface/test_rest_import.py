"""Bulk over a real server: lines in while they come, everything out, and nothing left behind."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp_clients import HttpServer

NDJSON = "application/x-ndjson"
WAIT = 60.0
LARGEST = 20_000  # bytes of a body, and of a line


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("import") / "home"


@pytest.fixture(scope="module")
def server(home: Path) -> Iterator[HttpServer]:
    with HttpServer(
        home, MINDHOLD_SERVE_LARGEST_BODY=str(LARGEST), MINDHOLD_SERVE_SLOW_CLIENT_SECONDS="2"
    ) as running:
        yield running


@pytest.fixture
def client(server: HttpServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, timeout=WAIT) as client:
        yield client


@pytest.fixture
def project(client: httpx2.Client, request: pytest.FixtureRequest) -> str:
    """One of its own for each test."""
    name = f"p-{request.node.name[:60]}"
    made = client.post("/api/projects", json={"name": name})
    assert made.status_code == 201, made.text
    return name


def place(project: str) -> str:
    return f"/api/projects/{project}/memory/messages/import"


def line(number: int, **fields: Any) -> bytes:
    message = {"message_type": "user", "content": f"Line {number} about the lighthouse keeper."} | fields
    return json.dumps(message).encode() + b"\n"


def sent(client: httpx2.Client, project: str, body: Any, **headers: str) -> httpx2.Response:
    named = {"Content-Type": NDJSON} | {name.replace("_", "-"): value for name, value in headers.items()}
    return client.post(place(project), content=body, headers=named)


def imported(client: httpx2.Client, project: str, body: Any, **headers: str) -> dict[str, Any]:
    answer = sent(client, project, body, **headers)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def total(client: httpx2.Client, project: str) -> int:
    found: int = client.get(f"/api/projects/{project}/memory/stats").json()["total_messages"]
    return found


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT
    while not done():
        assert time.monotonic() < deadline


def test_any_number_of_lines_beyond_what_one_body_may_be(client: httpx2.Client, project: str) -> None:
    body = b"".join(line(number) for number in range(1, 1_301))
    assert len(body) > LARGEST
    told = imported(client, project, body)
    assert (told["imported"], told["failed"], told["repeated"], told["indexed"]) == (1300, 0, 0, 1300)
    assert (told["errors"], told["message_ids"], told["project"]) == ([], [], project)
    assert total(client, project) == 1_300
    recent = client.get(f"/api/projects/{project}/memory/messages/recent", params={"limit": 3}).json()
    assert [one["content"].split()[1] for one in recent["messages"]] == ["1298", "1299", "1300"]


def test_pieces_of_any_size_marks_and_empty_lines(client: httpx2.Client, project: str) -> None:
    body = b"\xef\xbb\xbf" + b"\r\n\n".join(line(number).strip() for number in range(1, 41))
    told = imported(client, project, (body[at : at + 7] for at in range(0, len(body), 7)))
    assert (told["imported"], told["failed"]) == (40, 0)


def test_what_is_wrong_with_a_line_is_told_and_the_rest_goes_on(client: httpx2.Client, project: str) -> None:
    body = b"".join(
        [
            line(1),
            b"{broken\n",
            b"\n",
            line(4, message_type="robot"),
            line(5, content=" "),
            line(6, colour="red"),
            line(7, content="x" * LARGEST),
            b"[]\n",
            line(9, content="\ud800 half a pair"),
            b"\xff\xfe\n",
            line(11, metadata={"much": 10**30}),
            line(12).strip(),
        ]
    )
    told = imported(client, project, body)
    assert (told["imported"], told["failed"]) == (3, 8)
    assert [(error["line"], error["code"]) for error in told["errors"]] == [
        (2, "INVALID_JSON"),
        (4, "INVALID_MESSAGE_TYPE"),
        (5, "EMPTY_CONTENT"),
        (6, "INVALID_INPUT"),
        (7, "CONTENT_TOO_LARGE"),
        (8, "INVALID_INPUT"),
        (10, "INVALID_JSON"),
        (11, "INVALID_JSON"),
    ]
    assert told["errors"][1]["error"] == "Invalid message type. Must be one of: user, assistant, system"
    silent = imported(client, project, b'{"message_type": "user"}\n')
    assert [error["code"] for error in silent["errors"]] == ["EMPTY_CONTENT"]
    assert total(client, project) == 3


def test_errors_are_counted_and_the_first_hundred_told(client: httpx2.Client, project: str) -> None:
    told = imported(client, project, b"nothing\n" * 700 + line(701))
    assert (told["imported"], told["failed"], len(told["errors"])) == (1, 700, 100)
    assert [error["line"] for error in told["errors"]] == list(range(1, 101))


def test_an_import_that_broke_off_goes_on_under_its_key(
    server: HttpServer, client: httpx2.Client, project: str
) -> None:
    whole = [line(number) for number in range(1, 1_201)]
    key = "import-of-the-log"
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
    connection.putrequest("POST", place(project))
    for name, value in (("Content-Type", NDJSON), ("Idempotency-Key", key), ("Transfer-Encoding", "chunked")):
        connection.putheader(name, value)
    connection.endheaders()
    half = b"".join(whole[:700]) + whole[700][:20]
    connection.send(b"%x\r\n%s\r\n" % (len(half), half))
    until(lambda: total(client, project) >= 500)  # a lot is stored while more may come
    assert connection.sock is not None
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    until(lambda: total(client, project) == 700)  # what came is kept
    told = imported(client, project, b"".join(whole), Idempotency_Key=key)
    assert (told["imported"], told["repeated"], told["failed"]) == (500, 700, 0)
    again = imported(client, project, b"".join(whole), Idempotency_Key=key)
    assert (again["imported"], again["repeated"]) == (0, 1_200)
    assert total(client, project) == 1_200
    whole[4] = line(5, content="Another text.")
    changed = imported(client, project, b"".join(whole), Idempotency_Key=key)
    assert (changed["repeated"], changed["failed"]) == (1_199, 1)
    assert changed["errors"][0] | {"advice": "", "error": ""} == {
        "line": 5,
        "code": "IDEMPOTENCY_KEY_REUSED",
        "advice": "",
        "error": "",
    }


def test_one_who_says_nothing_more_is_sent_away_and_what_came_is_kept(
    server: HttpServer, client: httpx2.Client, project: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
    connection.putrequest("POST", place(project))
    connection.putheader("Content-Type", NDJSON)
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    part = line(1) + line(2)[:10]
    connection.send(b"%x\r\n%s\r\n" % (len(part), part))
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())["code"]) == (408, "TOO_SLOW")
    connection.close()
    until(lambda: total(client, project) == 1)


def test_progress_is_told_if_asked_for(client: httpx2.Client, project: str) -> None:
    answer = sent(client, project, b"".join(map(line, range(1, 601))) + b"oops\n", Accept=NDJSON)
    assert (answer.status_code, answer.headers["content-type"]) == (200, NDJSON)
    *before, last = map(json.loads, answer.text.splitlines())
    assert (last["imported"], last["failed"], last["status"]) == (600, 1, "saved")
    assert all(one["imported"] <= 600 for one in before)


def test_vectors_are_left_to_a_job_if_wanted(client: httpx2.Client, project: str) -> None:
    answer = client.post(
        place(project), params={"embed": "false"}, content=line(1), headers={"Content-Type": NDJSON}
    )
    assert (answer.status_code, answer.json()["imported"], answer.json()["indexed"]) == (200, 1, 0)


@pytest.mark.parametrize("body", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_nothing_is_nothing(client: httpx2.Client, project: str, body: bytes) -> None:
    assert imported(client, project, body)["imported"] == 0


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content-Type": "application/json"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ({"Content-Type": "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ({"Content-Encoding": "gzip"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ({"Idempotency-Key": "x" * 201}, 400, "INVALID_INPUT"),
    ],
)
def test_what_cannot_be_read_is_refused(
    client: httpx2.Client, project: str, headers: dict[str, str], status: int, code: str
) -> None:
    answer = client.post(place(project), content=line(1), headers={"Content-Type": NDJSON} | headers)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert total(client, project) == 0


def test_only_into_a_project_that_is_there(client: httpx2.Client) -> None:
    answer = sent(client, "nowhere", line(1))
    assert answer.status_code == 404
    assert (answer.json()["code"], answer.json()["project_id"]) == ("PROJECT_NOT_FOUND", "nowhere")
    assert client.post(f"{place('nowhere')}?colour=red", content=b"").status_code in (400, 415)


def test_other_bodies_are_as_limited_as_before(client: httpx2.Client, project: str) -> None:
    body = {"message_type": "user", "content": "x" * LARGEST}
    answer = client.post(f"/api/projects/{project}/memory/messages", json=body)
    assert (answer.status_code, answer.json()["code"]) == (413, "BODY_TOO_LARGE")


def test_a_batch_is_the_same_without_lines(client: httpx2.Client, project: str) -> None:
    path = f"/api/projects/{project}/memory/messages/batch"
    messages = [json.loads(line(number)) for number in (1, 2)] + [{"message_type": "user", "content": " "}]
    first = client.post(path, json={"messages": messages}, headers={"Idempotency-Key": "b"})
    assert first.status_code == 201, first.text
    told = first.json()
    assert (told["imported"], told["failed"], told["message_ids"][2]) == (2, 1, None)
    again = client.post(path, json={"messages": messages}, headers={"Idempotency-Key": "b"}).json()
    assert (again["imported"], again["repeated"], again["message_ids"]) == (0, 2, told["message_ids"])


def exported(client: httpx2.Client, path: str) -> list[dict[str, Any]]:
    answer = client.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith(NDJSON)
    return [json.loads(one) for one in answer.text.splitlines()]


def test_everything_comes_out_again(client: httpx2.Client, project: str, home: Path) -> None:
    imported(client, project, b"".join(map(line, range(1, 701))))
    head, *rest = exported(client, f"/api/projects/{project}/export")
    assert head["mindhold"] == "export"
    own = [one for one in rest if "Line " in str(one.get("content"))]
    assert len(own) == 700
    assert {one["scope"] for one in own} == {project}
    assert len(exported(client, "/api/export")) >= len(rest)
    assert list((home / "export").iterdir()) == []


def test_an_export_that_nobody_waits_for_leaves_nothing_behind(
    server: HttpServer, client: httpx2.Client, project: str, home: Path
) -> None:
    imported(client, project, b"".join(map(line, range(1, 701))))
    with client.stream(
        "GET", f"/api/projects/{project}/export", headers={"Accept-Encoding": "identity"}
    ) as one:
        assert one.status_code == 200
        next(one.iter_bytes(1_000))
    until(lambda: not list((home / "export").iterdir()))
    assert client.get("/health").status_code == 200


def test_an_export_of_what_is_not_there(client: httpx2.Client) -> None:
    answer = client.get("/api/projects/nowhere/export")
    assert (answer.status_code, answer.json()["code"]) == (404, "PROJECT_NOT_FOUND")
    assert client.get("/api/export", params={"path": "x"}).status_code == 400


def begun(server: HttpServer, project: str, part: bytes, **headers: str) -> http.client.HTTPConnection:
    """An import that more is to come of."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT)
    connection.putrequest("POST", place(project))
    for name, value in ({"Content-Type": NDJSON, "Transfer-Encoding": "chunked"} | headers).items():
        connection.putheader(name, value)
    connection.endheaders()
    connection.send(b"%x\r\n%s\r\n" % (len(part), part))
    return connection


@pytest.mark.parametrize("accept", ["application/json", NDJSON])
def test_a_server_that_stops_stores_what_came_and_says_how_much(tmp_path: Path, accept: str) -> None:
    whole = [line(number) for number in range(1, 21)]
    with HttpServer(tmp_path / "home", MINDHOLD_SERVE_STOP_SECONDS="60") as server:
        with httpx2.Client(base_url=server.url, timeout=WAIT) as client:
            assert client.post("/api/projects", json={"name": "shop"}).status_code == 201
            part = b"".join(whole[:10]) + whole[10][:10]
            connection = begun(server, "shop", part, **{"Accept": accept, "Idempotency-Key": "k"})
            until(lambda: total(client, "shop") == 10)  # soon, though more may come
        rest = whole[10][10:] + whole[11] + whole[12][:5]
        connection.send(b"%x\r\n%s\r\n" % (len(rest), rest))
        assert server.stop() == 0
        answer = connection.getresponse()
        told = json.loads(answer.read().splitlines()[-1])
        assert answer.status == (200 if accept == NDJSON else 503)
        assert (told["code"], told["imported"], told["failed"]) == ("STOPPING", 12, 0)
        connection.close()
        server.start()
        with httpx2.Client(base_url=server.url, timeout=WAIT) as client:
            again = imported(client, "shop", b"".join(whole), Idempotency_Key="k")
            assert (again["imported"], again["repeated"]) == (8, 12)


def test_errors_do_not_repeat_secrets(client: httpx2.Client, project: str) -> None:
    secret = "ghp_" + "Ab1" * 12
    body = b"".join(
        [
            json.dumps(secret).encode() + b"\n",
            line(2, **{secret: 1}),
            line(3, timestamp=secret),
            line(4, task_id=secret),
            line(5, metadata={"timestamp": secret}),
            line(6, task_id="x" * 20 + " " + secret),  # which is cut where it is too long
        ]
    )
    told = sent(client, project, body)
    assert told.json()["failed"] == 6
    assert "ghp_Ab1" not in told.text
    assert imported(client, project, line(1, content=f"It is {secret}.") + line(2))["redacted"] == 1


def test_one_who_sends_all_before_reading_hears_of_a_refusal(server: HttpServer) -> None:
    body = line(1) * 80_000
    request = urllib.request.Request(
        f"{server.url}{place('nowhere')}", data=body, headers={"Content-Type": NDJSON}
    )
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=WAIT)
    assert (refused.value.code, json.loads(refused.value.read())["code"]) == (404, "PROJECT_NOT_FOUND")


def test_the_head_of_an_export_writes_nothing(client: httpx2.Client, project: str, home: Path) -> None:
    folder = home / "export"
    before = folder.stat().st_mtime_ns if folder.exists() else None
    answer = client.head(f"/api/projects/{project}/export")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["content-type"].startswith(NDJSON)
    assert "content-length" not in answer.headers
    assert (folder.stat().st_mtime_ns if folder.exists() else None) == before
    assert client.head("/api/projects/nowhere/export").status_code == 404


def test_what_a_killed_server_left_of_an_export_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "export"
    folder.mkdir(parents=True)
    left = [folder / ".download-0a.jsonl", folder / "..download-0b.jsonl.0c.partial"]
    others = [
        folder / "memories-1.jsonl",
        folder / ".download-0d.jsonl",
    ]  # a person's; one that is being written
    for path in (*left, *others):
        path.write_text("{}\n", encoding="utf-8")
    for path in (*left, others[0]):
        os.utime(path, (1_000_000_000, 1_000_000_000))
    with HttpServer(tmp_path / "home"):
        until(lambda: not any(path.exists() for path in left))
        assert all(path.exists() for path in others)
