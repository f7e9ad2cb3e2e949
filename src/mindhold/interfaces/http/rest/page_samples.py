"""A call as it is typed: for the shell, and for Python."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any
from urllib.parse import quote, urlencode

BASE = "http://127.0.0.1:3333"  # the page's script puts its own server's here
JSON = "application/json"
LINE = '{"message_type": "user", "content": "How do we cache?"}'
MOST_IN_LINE = 60
_IN_PATH = re.compile(r"{(\w+)}")


def curl_of(path: str, method: str, operation: Mapping[str, Any]) -> str:
    """One command, over as many lines as it has parts."""
    target, body, media = _said(path, operation)
    streams = "text/event-stream" in _answer(operation).get("content", {})
    parts = [f'curl {"-N " if streams else ""}{"" if method == "GET" else f"-X {method} "}"{BASE}{target}"']
    if media:
        parts.append(f'-H "Content-Type: {media}"')
    if media == JSON:
        parts.append(f"-d {_quoted(json.dumps(body, indent=2, ensure_ascii=False))}")
    elif media:
        parts.append("--data-binary @messages.ndjson")
    return " \\\n  ".join(parts)


def python_of(operation: Mapping[str, Any]) -> str:
    """By the client that comes with Mindhold."""
    _, body, media = _said("", operation)
    said = {
        one["name"]: one["example"]
        for one in operation.get("parameters", ())
        if "name" in one and "example" in one
    }
    head = f'from mindhold.client import Mindhold\n\nwith Mindhold("{BASE}") as memory:\n'
    if "text/event-stream" in _answer(operation).get("content", {}):
        return f"{head}    for event in memory.events():\n        print(event)"
    if media and media != JSON:
        project = said.get("project_id", "proj_123")
        lines = (
            "messages = [",
            f"    {LINE},",
            "]",
            f"done = memory.import_messages({_literal(project)}, messages)",
        )
        return head + "".join(f"    {line}\n" for line in (*lines, "print(done.imported)")).rstrip()
    if "application/x-ndjson" in _answer(operation).get("content", {}):
        which = f", project={_literal(said['project_id'])}" if "project_id" in said else ""
        return f'{head}    memory.export("memories.jsonl"{which})'
    given = said | (body if isinstance(body, dict) else {})
    return f"{head}    answer = memory.run({_arguments(operation['operationId'], given)})\n    print(answer)"


def _arguments(name: str, given: Mapping[str, Any]) -> str:
    parts = [
        f'"{name}"',
        *(f"{word}={_literal(value)}" for word, value in given.items() if not iskeyword(word)),
    ]
    kept = {word: value for word, value in given.items() if iskeyword(word)}
    if kept:
        parts.append(f"**{_literal(kept)}")
    line = ", ".join(parts)
    if len(line) <= MOST_IN_LINE:
        return line
    return "\n        " + ",\n        ".join(parts) + ",\n    "


def _literal(value: Any) -> str:
    """As Python has it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(_literal(one) for one in value)}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_literal(name)}: {_literal(one)}' for name, one in value.items())}}}"
    return repr(value)


def example_answer(operation: Mapping[str, Any]) -> str:
    """What comes back, as text; nothing where no example is known."""
    for media, content in _answer(operation).get("content", {}).items():
        if "example" in content:
            found = content["example"]
            return json.dumps(found, indent=2, ensure_ascii=False) if media == JSON else str(found)
    return ""


def request_body(operation: Mapping[str, Any]) -> tuple[str, str] | None:
    """The media type of a body, and an example of one."""
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        example = content.get("example", {})
        text = json.dumps(example, indent=2, ensure_ascii=False) if media == JSON else str(example)
        return media, text
    return None


def _answer(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(
        one
        for status, one in sorted(operation["responses"].items(), reverse=True)
        if status in ("200", "201")
    )
    return found


def _said(path: str, operation: Mapping[str, Any]) -> tuple[str, Any, str]:
    """Path and query as the examples have them, the body, and its type."""
    examples = {one["name"]: one.get("example") for one in operation.get("parameters", ()) if "name" in one}
    places = {one["name"]: one["in"] for one in operation.get("parameters", ()) if "name" in one}
    target = _IN_PATH.sub(lambda found: quote(str(examples.get(found[1]) or found[1]), safe=""), path)
    pairs = [
        (name, _text(one))
        for name, value in examples.items()
        if places[name] == "query" and value is not None
        for one in (value if isinstance(value, list) else [value])
    ]
    asked = f"?{urlencode(pairs)}" if pairs else ""
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        return target + asked, content.get("example"), media
    return target + asked, None, ""


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    inside = text.replace("'", "'\\''")
    return f"'{inside}'"
