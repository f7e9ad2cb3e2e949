"""`mindhold mcp` and what a broken client may send it: the wire stays clean, the server stays up, the next call works."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from mcp_clients import STATELESS, WAIT, Wire

FACT = {"content": "The orchard has 40 apple trees.", "topic": "orchard", "type": "fact"}


@pytest.fixture(scope="module")
def wire(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wire]:
    """One server for all: what one test does to it, the next must not notice."""
    with Wire(tmp_path_factory.mktemp("stdio") / "home", "--toolsets", "all") as wire:
        yield wire.greet()
        assert wire.close() == 0
        assert_clean(wire)


def assert_clean(wire: Wire) -> None:
    """Nothing but messages, one a line, and no trace of a fault in any."""
    for line in wire.lines:
        message = json.loads(line)
        assert message["jsonrpc"] == "2.0"
        assert "result" in message or "error" in message or "method" in message
        assert b"Traceback" not in line
        assert b'File \\"' not in line


def still_works(wire: Wire) -> None:
    """The next call is answered."""
    assert wire.call("remember", **FACT)["structuredContent"]["success"]
    assert wire.call("recall", text="How many apple trees?")["structuredContent"]["count"] >= 1


def call_line(tool: str, arguments: bytes, request: int = 5_000) -> bytes:
    return b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%b","arguments":%b}}' % (
        request,
        tool.encode(),
        arguments,
    )


def remember_line(content: bytes) -> bytes:
    return call_line("remember", b'{"content":"%b","topic":"t","type":"fact"}' % content)


NO_MESSAGES = {
    "words": b"hello, is this mindhold?",
    "half": b'{"jsonrpc":"2.0","id":1,"method":',
    "bytes": b"\x00\xff\xfe\x80",
    "brackets": b"[" * 100_000,
    "deep": call_line("remember", b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    "batch": b'[{"jsonrpc":"2.0","id":5000,"method":"ping"}]',
    "array": b'{"jsonrpc":"2.0","id":5000,"method":"tools/call","params":[1,2]}',
    "nothing": b'{"jsonrpc":"2.0","id":5000}',
    "old": b'{"jsonrpc":"1.0","id":5000,"method":"ping"}',
    "digits": call_line("recall", b'{"text":"x","tokenBudget":%b}' % (b"9" * 5_000)),
    "surrogate": remember_line(rb"a lone \ud800 surrogate"),
    "latin": remember_line(b"caf\xe9 \xff closes at nine"),
}
HAVE_AN_ID = ("array", "nothing", "old", "surrogate", "latin")  # so that who asked need not wait in vain


@pytest.mark.parametrize("name", NO_MESSAGES)
def test_a_line_that_is_no_message_is_refused(wire: Wire, name: str) -> None:
    wire.send(NO_MESSAGES[name])
    refused = wire.hear()
    assert refused["error"]["code"] in (-32700, -32600)
    assert refused["id"] == (5_000 if name in HAVE_AN_ID else None)
    still_works(wire)


IGNORED = {
    "fraction": b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    "null": b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "object": b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    "answer": b'{"jsonrpc":"2.0","id":77,"result":{}}',
    "unknown": b'{"jsonrpc":"2.0","method":"notifications/no_such"}',
    "blank": b"",
    "spaces": b"  \r",
    "cancelled": b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":12345}}',
}


@pytest.mark.parametrize("line", IGNORED.values(), ids=IGNORED.keys())
def test_what_asks_for_nothing_does_no_harm(wire: Wire, line: bytes) -> None:
    wire.send(line)
    still_works(wire)


PROTOCOL_ERRORS: dict[str, tuple[bytes, int]] = {
    "method": (b'{"jsonrpc":"2.0","id":5000,"method":"no/such"}', -32601),
    "tool": (call_line("no_such_tool", b"{}"), -32602),
    "arguments": (call_line("remember", b'"words"'), -32602),
    "name": (b'{"jsonrpc":"2.0","id":5000,"method":"tools/call","params":{"name":5}}', -32602),
    "prompt": (b'{"jsonrpc":"2.0","id":5000,"method":"prompts/get","params":{"name":"no_such"}}', -32602),
    "resource": (
        b'{"jsonrpc":"2.0","id":5000,"method":"resources/read","params":{"uri":"memory://x"}}',
        -32002,
    ),
    "file": (
        b'{"jsonrpc":"2.0","id":5000,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}',
        -32002,
    ),
    "level": (b'{"jsonrpc":"2.0","id":5000,"method":"logging/setLevel","params":{"level":"loud"}}', -32602),
}


@pytest.mark.parametrize(("line", "code"), PROTOCOL_ERRORS.values(), ids=PROTOCOL_ERRORS.keys())
def test_a_wrong_request_gets_an_error_of_the_protocol(wire: Wire, line: bytes, code: int) -> None:
    wire.send(line)
    error = wire.answer_to(5_000)["error"]
    assert error["code"] == code
    assert error["message"]
    assert code == -32601 or error["data"]["code"] in ("INVALID_INPUT", "MEMORY_NOT_FOUND")
    still_works(wire)


TOOL_ERRORS: dict[str, tuple[str, dict[str, Any], str]] = {
    "missing": ("remember", {}, "INVALID_INPUT"),
    "types": ("remember", FACT | {"content": 5}, "INVALID_INPUT"),
    "enum": ("remember", FACT | {"type": "rumour"}, "INVALID_INPUT"),
    "unknown": ("remember", FACT | {"colour": "red"}, "INVALID_INPUT"),
    "empty": ("remember", FACT | {"content": "  "}, "INVALID_INPUT"),
    "large": ("remember", FACT | {"content": "word " * 2_000_000}, "CONTENT_TOO_LARGE"),
    "range": ("remember", FACT | {"importance": 7}, "INVALID_INPUT"),
    "id": ("forget", {"id": "01m7h3mkaat010s47gme8qqhs7"}, "MEMORY_NOT_FOUND"),
    "no id": ("forget", {"id": "'; DROP TABLE memory; --"}, "MEMORY_NOT_FOUND"),
    "nesting": (
        "save_conversation_message",
        {
            "message_type": "user",
            "content": "Deeply nested metadata.",
            "metadata": json.loads('{"a":' * 100 + "1" + "}" * 100),
        },
        "INVALID_INPUT",
    ),
}


@pytest.mark.parametrize(("tool", "arguments", "code"), TOOL_ERRORS.values(), ids=TOOL_ERRORS.keys())
def test_wrong_arguments_get_an_error_of_the_tool(
    wire: Wire, tool: str, arguments: dict[str, Any], code: str
) -> None:
    result = wire.call(tool, **arguments)
    assert result["isError"]
    told = json.loads(result["content"][0]["text"])
    assert told["code"] == code
    assert told["error"]
    still_works(wire)


@pytest.mark.parametrize("number", ["Infinity", "-Infinity", "NaN", "1e999"])
def test_numbers_that_are_none_are_refused(wire: Wire, number: str) -> None:
    wire.send(
        call_line("remember", json.dumps(FACT | {"importance": 0}).replace(": 0", f": {number}").encode())
    )
    result = wire.answer_to(5_000)["result"]
    assert result["isError"]
    still_works(wire)


def test_a_mark_of_the_byte_order_and_a_carriage_return_are_passed_over(wire: Wire) -> None:
    wire.send(b'\xef\xbb\xbf{"jsonrpc":"2.0","id":"mark","method":"ping"}\r')
    assert wire.hear() == {"jsonrpc": "2.0", "id": "mark", "result": {}}


def test_a_nul_in_a_text_is_left_out(wire: Wire) -> None:
    wire.send(remember_line(rb"A nul \u0000 stands in the middle."))
    assert wire.answer_to(5_000)["result"]["structuredContent"]["success"]
    found = wire.call("recall", text="nul in the middle")["structuredContent"]["fragments"]
    assert "A nul  stands in the middle." in [one["content"] for one in found]


@pytest.mark.parametrize("name", [10**30, -1, 0, "x" * 100_000, "", "naïve ☕"])
def test_any_id_comes_back_as_it_was(wire: Wire, name: object) -> None:
    wire.say({"id": name, "method": "ping"})
    assert wire.hear() == {"jsonrpc": "2.0", "id": name, "result": {}}


def test_a_request_before_initialize_is_refused_and_initialize_still_works(tmp_path: Path) -> None:
    with Wire(tmp_path / "home") as wire:
        assert "error" in wire.ask("tools/list")
        assert "error" in wire.ask("tools/call", name="remember", arguments=FACT)
        still_works(wire.greet())
        assert wire.close() == 0
        assert_clean(wire)


def test_both_eras_on_one_wire(tmp_path: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with Wire(tmp_path / "home") as wire:
        known = wire.ask("server/discover", _meta=meta)["result"]
        assert STATELESS in known["supportedVersions"]
        answer = wire.ask("tools/call", name="remember", arguments=FACT, _meta=meta)
        assert answer["result"]["structuredContent"]["success"]
        assert wire.close() == 0
        assert_clean(wire)


def test_an_answer_is_given_even_if_the_client_closes_behind_its_last_request(tmp_path: Path) -> None:
    with Wire(tmp_path / "home") as wire:
        wire.greet()
        wire.say({"id": "last", "method": "tools/call", "params": {"name": "remember", "arguments": FACT}})
        assert wire.close() == 0
        kept = wire.answer_to("last")["result"]["structuredContent"]
        assert_clean(wire)
    with Wire(tmp_path / "home") as wire:
        found = wire.greet().call("recall", text="apple trees")["structuredContent"]
        assert kept["id"] in [one["id"] for one in found["fragments"]]


def test_it_ends_with_its_client_whenever_that_goes(tmp_path: Path) -> None:
    with Wire(tmp_path / "home") as wire:
        assert wire.close() == 0
    with Wire(tmp_path / "home") as wire:
        wire.ask(
            "initialize", protocolVersion=STATELESS, capabilities={}, clientInfo={"name": "w", "version": "1"}
        )
        assert wire.close() == 0
        assert_clean(wire)


@pytest.mark.parametrize("kindly", [True, False], ids=["terminated", "killed"])
def test_ended_from_outside_it_leaves_nothing_running_and_nothing_half_written(
    tmp_path: Path, kindly: bool
) -> None:
    with Wire(tmp_path / "home") as wire:
        still_works(wire.greet())
        children = psutil.Process(wire.process.pid).children(recursive=True)
        if kindly:
            wire.process.terminate()
        else:
            wire.process.kill()
        wire.process.wait(WAIT)
        assert not [child for child in children if child.is_running()]
        assert_clean(wire)
    with Wire(tmp_path / "home") as wire:
        still_works(wire.greet())
        assert wire.close() == 0


def test_ten_servers_on_one_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    wires = [Wire(home) for _ in range(10)]
    try:

        def work(number: int) -> str:
            content = f"Hive number {number} gives {number + 20} jars of honey."
            kept = wires[number].greet().call("remember", content=content, topic="bees", type="fact")
            return str(kept["structuredContent"]["id"])

        with ThreadPoolExecutor(10) as pool:
            ids = list(pool.map(work, range(10)))
        assert len(set(ids)) == 10
        for number in (0, 9):
            found = wires[number].call("recall", topic="bees", tokenBudget=5_000)["structuredContent"]
            assert {one["id"] for one in found["fragments"]} == set(ids)
        assert [wire.close() for wire in wires] == [0] * 10
        for wire in wires:
            assert_clean(wire)
    finally:
        for wire in wires:
            wire.__exit__(None, None, None)


def test_a_home_that_can_not_be_used_is_told_and_not_a_reason_to_die(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "data").write_text("a file where a folder belongs", encoding="utf-8")
    with Wire(home) as wire:
        result = wire.greet().call("remember", **FACT)
        assert result["isError"]
        assert json.loads(result["content"][0]["text"])["code"]
        assert wire.ask("tools/list")["result"]["tools"]
        (home / "data").unlink()
        still_works(wire)
        assert wire.close() == 0
        assert_clean(wire)


def test_a_running_server_follows_the_settings_file(tmp_path: Path) -> None:
    with Wire(tmp_path / "home") as wire:
        wire.greet()
        before = len(wire.ask("tools/list")["result"]["tools"])
        (tmp_path / "home" / "config.toml").write_text('toolsets = "nonsense"\n', encoding="utf-8")
        (tmp_path / "home" / "config.toml").write_text('toolsets = "all"\n', encoding="utf-8")
        while wire.hear().get("method") != "notifications/tools/list_changed":
            pass
        assert len(wire.ask("tools/list")["result"]["tools"]) == 42 > before
