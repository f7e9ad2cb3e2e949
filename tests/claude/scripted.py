"""A stand-in for the Messages API: speaks its protocol on a socket of this machine, says what it is told to say, and
keeps what it was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Say:
    """A turn that ends with words."""

    text: str

    def block(self, _number: int) -> Json:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class Use:
    """A turn that calls a tool."""

    tool: str
    arguments: Json

    def block(self, number: int) -> Json:
        return {"type": "tool_use", "id": f"toolu_{number:06d}", "name": self.tool, "input": self.arguments}


@dataclass(slots=True)
class ScriptedModel:
    """Gives out the turns in order to requests that bring tools; all others are side questions of the client's."""

    turns: Sequence[Say | Use]
    url: str = ""
    asked: list[Json] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def conversation(self) -> list[Json]:
        """The requests of the conversation itself."""
        return [request for request in self.asked if request.get("tools")]

    def answer(self, request: Json) -> Json:
        """A whole message."""
        with self._lock:
            self.asked.append(request)
            number = len(self.conversation()) - 1
        in_script = bool(request.get("tools")) and number < len(self.turns)
        turn = self.turns[number] if in_script else Say("ok")
        return {
            "id": f"msg_{len(self.asked):06d}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", "scripted"),
            "content": [turn.block(number)],
            "stop_reason": "tool_use" if isinstance(turn, Use) else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 10},
        }


@contextmanager
def serving(model: ScriptedModel) -> Iterator[ScriptedModel]:
    """The model at `model.url`."""

    class Door(_Door):
        answering = model

    server = _Server(("127.0.0.1", 0), Door)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    model.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is no news."""


class _Door(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    answering: ScriptedModel

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the requests are kept."""

    def do_GET(self) -> None:
        self._send("application/json", json.dumps({"data": [], "has_more": False}).encode())

    def do_HEAD(self) -> None:
        self._send("application/json", b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if path.endswith("/count_tokens"):
            self._send("application/json", json.dumps({"input_tokens": len(body) // 4}).encode())
        elif path.endswith("/messages"):
            request = json.loads(body)
            message = self.answering.answer(request)
            if request.get("stream"):
                self._send("text/event-stream", b"".join(_streamed(message)))
            else:
                self._send("application/json", json.dumps(message).encode())
        else:
            self._send("application/json", b"{}")

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _streamed(message: Json) -> Iterator[bytes]:
    """A message as the events that the API sends it in."""
    [block] = message["content"]
    if block["type"] == "text":
        empty, delta = block | {"text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        written = json.dumps(block["input"])
        empty, delta = block | {"input": {}}, {"type": "input_json_delta", "partial_json": written}
    ended = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    events: list[Json] = [
        {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": message["usage"]},
        {"type": "message_stop"},
    ]
    for event in events:
        yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
