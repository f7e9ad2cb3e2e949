"""An RLM server on standard input and output: real MCP, the tools of the public one with their schemas and limits, and no model.

What it "reads" is told by words: of a piece it quotes the line that has most words of the question. By arguments it misbehaves.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import mcp_types as types

MOST_BYTES = 100 * 1024 * 1024
_NAME = re.compile(r"^[a-zA-Z0-9_-]+$")
_WORD = re.compile(r"[a-z0-9]{3,}")
_TEXT, _WHOLE, _THING = {"type": "string"}, {"type": "integer"}, {"type": "object"}
_PROVIDER = {"type": "string", "enum": ["ollama", "claude-sdk"], "default": "claude-sdk"}
MODELS = {"ollama": "olmo-3.1:32b", "claude-sdk": "claude-haiku-4-5-20251101"}  # where a call names none
_DEPTH = {"type": "integer", "default": 0, "minimum": 0, "maximum": 5}


def _schema(required: str = "", **properties: Mapping[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | {"required": required.split()} if required else schema


SCHEMAS: dict[str, dict[str, Any]] = {
    "rlm_load_context": _schema("name content", name=_TEXT, content=_TEXT),
    "rlm_inspect_context": _schema("name", name=_TEXT, preview_chars=_WHOLE | {"default": 500}),
    "rlm_chunk_context": _schema(
        "name",
        name=_TEXT,
        strategy=_TEXT | {"enum": ["lines", "chars", "paragraphs"], "default": "lines"},
        size=_WHOLE | {"default": 100},
    ),
    "rlm_get_chunk": _schema("name chunk_index", name=_TEXT, chunk_index=_WHOLE),
    "rlm_filter_context": _schema(
        "name output_name pattern",
        name=_TEXT,
        output_name=_TEXT,
        pattern=_TEXT,
        mode=_TEXT | {"enum": ["keep", "remove"], "default": "keep"},
    ),
    "rlm_sub_query": _schema(
        "query context_name",
        query=_TEXT,
        context_name=_TEXT,
        chunk_index=_WHOLE,
        provider=_PROVIDER,
        model=_TEXT,
        max_depth=_DEPTH,
    ),
    "rlm_store_result": _schema("name result", name=_TEXT, result=_TEXT, metadata=_THING),
    "rlm_get_results": _schema("name", name=_TEXT),
    "rlm_list_contexts": _schema(),
    "rlm_sub_query_batch": _schema(
        "query context_name chunk_indices",
        query=_TEXT,
        context_name=_TEXT,
        chunk_indices={"type": "array", "items": _WHOLE},
        provider=_PROVIDER,
        model=_TEXT,
        concurrency=_WHOLE | {"default": 4},
        max_depth=_DEPTH,
    ),
    "rlm_auto_analyze": _schema(
        "name content goal",
        name=_TEXT,
        content=_TEXT,
        goal=_TEXT,
        provider=_PROVIDER,
        concurrency=_WHOLE | {"default": 4},
    ),
    "rlm_exec": _schema(
        "code context_name", code=_TEXT, context_name=_TEXT, timeout=_WHOLE | {"default": 30}
    ),
}


class Failure(Exception):
    """What a tool answers instead: a code, and words."""


class Shelf:
    """The texts that it was given, and their pieces. `provider` fails, or how its model words an answer."""

    def __init__(self, told: argparse.Namespace) -> None:
        self.contexts: dict[str, str] = {}
        self.chunks: dict[str, list[str]] = {}
        self._told = told

    def answer(self, tool: str, given: Mapping[str, Any]) -> Any:
        return getattr(self, f"_{tool.removeprefix('rlm_')}")(given)

    def _load_context(self, given: Mapping[str, Any]) -> Any:
        name, content = given["name"], given["content"]
        if not _NAME.match(name):
            raise Failure("invalid_context_name", f"Invalid context name: {name}.")
        if len(content.encode()) > MOST_BYTES:
            raise Failure("context_too_large", "Too large.")
        self.contexts[name] = content
        self.chunks.pop(name, None)
        if folder := os.environ.get("RLM_DATA_DIR"):
            path = Path(folder) / "contexts" / f"{name}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
        return {"status": "loaded", "name": name, "length": len(content), "lines": content.count("\n") + 1}

    def _text(self, name: str) -> str:
        if name not in self.contexts:
            raise Failure("context_not_found", f"Context '{name}' not found")
        return self.contexts[name]

    def _inspect_context(self, given: Mapping[str, Any]) -> Any:
        content = self._text(given["name"])
        count = len(self.chunks.get(given["name"], ()))
        return {"name": given["name"], "length": len(content), "has_chunks": count > 0, "chunk_count": count}

    def _chunk_context(self, given: Mapping[str, Any]) -> Any:
        size = given.get("size", 100)
        if not 1 <= size <= 100_000:
            raise Failure("invalid_chunk_size", "Chunk size must be between 1 and 100000")
        lines = self._text(given["name"]).split("\n")
        self.chunks[given["name"]] = ["\n".join(lines[at : at + size]) for at in range(0, len(lines), size)]
        return {"status": "chunked", "chunk_count": len(self.chunks[given["name"]])}

    def _exec(self, given: Mapping[str, Any]) -> Any:
        content = self._text(given["context_name"])
        if not 1 <= given.get("timeout", 30) <= 300:
            raise Failure("invalid_timeout", "Timeout must be between 1 and 300 seconds")
        if self._told.no_exec:
            raise Failure("execution_error", "Code execution failed")
        around = f"import sys, json\n{self._told.variable} = sys.stdin.read()\nresult = None\n{given['code']}\nprint(json.dumps(result))"
        ran = subprocess.run(
            [sys.executable, "-I", "-c", around], input=content, capture_output=True, text=True, check=False
        )
        result = json.loads(ran.stdout) if ran.returncode == 0 else None
        return {"result": result, "stderr": ran.stderr, "return_code": ran.returncode, "timed_out": False}

    def _sub_query_batch(self, given: Mapping[str, Any]) -> Any:
        if not 1 <= given.get("concurrency", 4) <= 8:
            raise Failure("invalid_concurrency", "Concurrency must be between 1 and 8")
        self._text(given["context_name"])
        chunks = self.chunks.get(given["context_name"])
        if not chunks:
            raise Failure("context_not_chunked", "It has not been chunked yet")
        if any(not 0 <= at < len(chunks) for at in given["chunk_indices"]):
            raise Failure("invalid_chunk_indices", "Invalid chunk indices")
        results = [self._judged(at, chunks[at], given) for at in given["chunk_indices"]]
        return {"status": "completed", "total_chunks": len(results), "results": results}

    def _judged(self, index: int, chunk: str, given: Mapping[str, Any]) -> dict[str, Any]:
        if self._told.errors and (
            self._told.errors == "all" or index in map(int, self._told.errors.split(","))
        ):
            return {"chunk_index": index, "error": "provider_error", "message": self._told.message}
        said = {"chunk_index": index, "provider": given["provider"], "model": given["model"]}
        question = re.search(r'"((?:[^"\\]|\\.)*)"', given["query"])
        verdict = _verdict(question[1] if question else "", chunk)
        if self._told.words == "spec":
            return said | {
                "response": "Found something.",
                "relevance_score": verdict["relevance"],
                "relevance_explanation": verdict["why"],
                "relevant_excerpt": verdict["excerpt"],
            }
        if self._told.chatter_at and self._told.chatter_at in chunk:
            return said | {"response": "As you wish, in plain words."}
        text = json.dumps(verdict)
        wording = {
            "json": text,
            "fenced": f"```json\n{text}\n```",
            "prose": f"Here it is: {text} I hope that helps.",
            "chatter": "I think it is quite relevant.",
            "invented": json.dumps(
                verdict | {"excerpt": "Nobody ever said anything of that kind", "line": 99_999}
            ),
            "nothing": json.dumps({"relevance": 0, "excerpt": ""}),
        }
        return said | {"response": wording[self._told.words]}

    def _auto_analyze(self, given: Mapping[str, Any]) -> Any:
        self._load_context(given)
        if self._told.errors:
            results = [{"chunk_index": 0, "error": "provider_error", "message": self._told.message}]
        else:
            kind, pieces = _split(given["content"])
            results = [
                {
                    "chunk_index": at,
                    "response": f"They spoke of {kind} in {len(piece)} characters.",
                    "model": MODELS[given["provider"]],
                }
                for at, piece in enumerate(pieces)
            ]
        return {"status": "completed", "goal": given["goal"], "results": results}

    def _list_contexts(self, _given: Mapping[str, Any]) -> Any:
        return {"contexts": [{"name": name} for name in self.contexts]}


def _split(content: str) -> tuple[str, list[str]]:
    """What a text is taken for by its beginning, and its pieces; of more than twenty only so many are read."""
    if content.lstrip().startswith(("{", "[")):
        return "json", [content[at : at + 10_000] for at in range(0, len(content), 10_000)][:20]
    prose = len(re.findall(r"[.!?]\s+[A-Z]", content[:1_000])) > 4
    parts, size = (content.split("\n\n"), 30) if prose else (content.split("\n"), 500)
    pieces = ["\n\n".join(parts[at : at + size]) for at in range(0, len(parts), size)]
    return "prose" if prose else "logs", pieces[:20]


def _verdict(question: str, chunk: str) -> dict[str, Any]:
    wanted = set(_WORD.findall(question.lower()))
    rows = [json.loads(line) for line in chunk.split("\n")]
    shares = [len(wanted & set(_WORD.findall(row["content"].lower()))) / max(1, len(wanted)) for row in rows]
    top = max(range(len(rows)), key=shares.__getitem__)
    row = rows[top]
    return {
        "relevance": shares[top],
        "excerpt": row["content"][:200],
        "line": row["line"],
        "why": "it says so",
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--refuse", action="store_true", help="end at once, with words on standard error")
    parser.add_argument("--mute", action="store_true", help="answer nothing at all")
    parser.add_argument("--stranger", action="store_true", help="have other tools")
    parser.add_argument("--garbage", action="store_true", help="write lines that are no messages, and noise")
    parser.add_argument("--crash-at", type=int, default=0, help="end in the midst of that call")
    parser.add_argument("--hang-at", type=int, default=0, help="hang at that call, deaf to everything")
    parser.add_argument("--slow-at", type=int, default=0, help="never be done with that call, but listen")
    parser.add_argument("--once", default="", help="a file: what goes wrong goes wrong once only")
    parser.add_argument("--errors", default="", help="pieces whose model fails, by commas, or all")
    parser.add_argument("--message", default="no key for the model", help="what is said of those")
    parser.add_argument("--last-words", default="ModuleNotFoundError: No module named 'rlm'")
    parser.add_argument("--chatter-at", default="", help="words of pieces about which the model only chats")
    parser.add_argument("--words", default="json", help="how the model words what it says")
    parser.add_argument("--no-exec", action="store_true")
    parser.add_argument("--variable", default="context", help="what code knows the text by")
    parser.add_argument("--log", default="", help="a file that gets a line for each start and each call")
    return parser.parse_args()


class Conduct:
    """What it does besides answering."""

    def __init__(self, told: argparse.Namespace) -> None:
        self._told = told
        self._calls = 0

    def log(self, **what: Any) -> None:
        if self._told.log:
            with Path(self._told.log).open("a", encoding="utf-8") as file:
                file.write(json.dumps({"pid": os.getpid()} | what) + "\n")

    async def before(self, tool: str, given: Mapping[str, Any]) -> None:
        self._calls += 1
        self.log(tool=tool, given=given)
        if self._calls == self._told.crash_at and self._first():
            os._exit(7)
        if self._calls == self._told.hang_at and self._first():
            threading.Event().wait()
        if self._calls == self._told.slow_at and self._first():
            await asyncio.Event().wait()

    def _first(self) -> bool:
        if not self._told.once:
            return True
        before = Path(self._told.once).exists()
        Path(self._told.once).touch()
        return not before


async def serve(told: argparse.Namespace) -> None:
    import mcp_types as types  # those who refuse needn't wait for it
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    shelf, conduct = Shelf(told), Conduct(told)
    conduct.log(started=sorted(os.environ), model=os.environ.get("ANTHROPIC_MODEL"))

    async def listed(_context: Any, _params: Any) -> types.ListToolsResult:
        names = ["somebody_elses"] if told.stranger else list(SCHEMAS)
        empty = _schema()
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=SCHEMAS.get(name, empty)) for name in names]
        )

    async def called(_context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        given = params.arguments or {}
        await conduct.before(params.name, given)
        if params.name not in SCHEMAS:
            return said(f"Unknown tool: {params.name}")
        try:
            return said(json.dumps(shelf.answer(params.name, given), indent=2))
        except Failure as failure:
            return said(json.dumps({"error": failure.args[0], "message": failure.args[1]}))

    def said(text: str) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    server = Server("rlm", on_list_tools=listed, on_call_tool=called)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def main() -> None:
    told = _arguments()
    if told.refuse:
        sys.stderr.write(f"some noise\n{told.last_words}\n")
        sys.exit(3)
    if told.mute:
        sys.stdin.read()
        return
    if told.garbage:
        sys.stdout.write('Welcome to RLM!\n{"half": \n\x00\x01\n{"jsonrpc": "1.0"}\n')
        sys.stdout.flush()
        sys.stdout.buffer.write(b"\xff\xfe not even text\n")
        sys.stdout.flush()
        sys.stderr.write("warning: noise\n" * 20_000)
        sys.stderr.flush()
    asyncio.run(serve(told))


if __name__ == "__main__":
    main()
