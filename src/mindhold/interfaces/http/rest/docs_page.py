"""The page at /docs: the OpenAPI document for people, with schemas as tables, sample calls and a form to try them."""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from keyword import iskeyword
from string import Template
from typing import Any
from urllib.parse import quote, urlencode

from mindhold.contracts.rest.errors import EVERYWHERE, FAILURES, TITLES, Failure
from mindhold.contracts.rest.openapi import openapi_document, resolve_reference

ENDLESS = 2**31 - 1  # a limit of the machine, not of the matter
SHAPES = "#/components/schemas/"
_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
_LIMITS = (
    ("minimum", "at least {}"),
    ("exclusiveMinimum", "more than {}"),
    ("maximum", "at most {}"),
    ("exclusiveMaximum", "less than {}"),
    ("minLength", "at least {} long"),
    ("maxLength", "at most {} long"),
    ("minItems", "at least {} of them"),
    ("maxItems", "at most {} of them"),
)


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A row: a parameter, or a property."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    description: str = ""
    where: str = ""


def fields_of(schema: Mapping[str, Any]) -> list[SchemaField]:
    """The properties of an object."""
    required = schema.get("required", ())
    return [
        SchemaField(name, one, name in required, one.get("description", ""))
        for name, one in schema.get("properties", {}).items()
    ]


def table(fields: Iterable[SchemaField], *, heading: str = "", says_required: bool = True) -> str:
    """Nothing where there are none."""
    rows = "".join(_row(field, says_required=says_required) for field in fields)
    if not rows:
        return ""
    head = (
        "<thead><tr><th scope=col>Name</th><th scope=col>Type</th><th scope=col>What it is</th></tr></thead>"
    )
    above = f"<h4>{escape(heading)}</h4>" if heading else ""
    return f'{above}<div class=scroll><table class="fields-table">{head}<tbody>{rows}</tbody></table></div>'


def _row(field: SchemaField, *, says_required: bool) -> str:
    schema = without_null(field.schema) if says_required else field.schema
    must = ' <span class="must">required</span>' if field.required and says_required else ""
    where = f' <span class="where">{escape(field.where)}</span>' if field.where else ""
    return (
        f"<tr><th scope=row><code>{escape(field.name)}</code>{must}{where}</th>"
        f'<td class="type">{type_of(schema)}{_default(schema) if says_required else ""}</td><td>{inline(field.description)}</td></tr>'
    )


def without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """As it is asked for: null is what leaving it out means, and need not be said."""
    left = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    return {**schema, "anyOf": left} if left else schema


def _default(schema: Mapping[str, Any]) -> str:
    if schema.get("default") in (None, "", [], {}):
        return ""
    return f"<br>default <code>{escape(json.dumps(schema['default'], ensure_ascii=False))}</code>"


def type_of(schema: Mapping[str, Any]) -> str:
    """In words; other shapes are linked to."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(SHAPES)
        return f'<a href="#shape-{escape(name)}">{escape(name)}</a>'
    if "const" in schema:
        return f"<code>{escape(json.dumps(schema['const']))}</code>"
    if "enum" in schema:
        return " ".join(f"<code>{escape(json.dumps(one).strip(chr(34)))}</code>" for one in schema["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(type_of(one) for one in schema[key]))
    return _plain(schema) + _limits(schema)


def _plain(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if kind == "array":
        return f"list of {type_of(schema.get('items', {}))}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"object of {type_of(inner)}" if isinstance(inner, Mapping) and inner else "object"
    if schema.get("format") in ("date-time", "date"):
        return "time" if schema["format"] == "date-time" else "date"
    words = {"string": "text", "integer": "whole number", "boolean": "true or false"}
    return escape(words.get(str(kind), str(kind or "anything")))


def _limits(schema: Mapping[str, Any]) -> str:
    said = [words.format(schema[key]) for key, words in _LIMITS if key in schema and schema[key] < ENDLESS]
    return f", {' and '.join(said)}" if said else ""


def inline(text: str) -> str:
    """A line's own marks: code and strong."""
    return _STRONG.sub(r"<strong>\1</strong>", _CODE.sub(r"<code>\1</code>", escape(text, quote=False)))


def prose(text: str) -> str:
    """Paragraphs."""
    return "".join(f"<p>{inline(part.strip())}</p>" for part in text.split("\n\n") if part.strip())


BASE = "http://127.0.0.1:3333"  # the page's script puts its own server's here
JSON = "application/json"
LINE = '{"message_type": "user", "content": "How do we cache?"}'
MOST_IN_LINE = 60
_IN_PATH = re.compile(r"{(\w+)}")


def curl_of(path: str, method: str, operation: Mapping[str, Any]) -> str:
    """One command, over as many lines as it has parts."""
    target, body, media = _said(path, operation)
    streams = "text/event-stream" in _sample_answer(operation).get("content", {})
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
    if "text/event-stream" in _sample_answer(operation).get("content", {}):
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
    if "application/x-ndjson" in _sample_answer(operation).get("content", {}):
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
    for media, content in _sample_answer(operation).get("content", {}).items():
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


def _sample_answer(operation: Mapping[str, Any]) -> Mapping[str, Any]:
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


Json = Mapping[str, Any]


def form_of(path: str, method: str, operation: Json, parameters: Sequence[Json]) -> str:
    """Folded away; without the script it says nothing."""
    name = escape(operation["operationId"])
    fields = "".join(_field(name, one) for one in parameters)
    if body := request_body(operation):
        fields += _body_form(name, *body)
    destroys = " data-destroys" if method == "DELETE" else ""
    return (
        f'<details class="try"><summary>Try it</summary><form class="request" data-method="{method}"'
        f' data-path="{escape(path)}"{destroys}>{fields}<div class="does" hidden><button type="submit">Send</button>'
        '<button type="button" class="halt" hidden>Stop</button></div><output aria-live="polite"></output></form></details>'
    )


def _field(form: str, one: Json) -> str:
    label = f"{form}-{escape(one['name'])}"
    schema = one["schema"]
    marks = f' id="{label}" name="{escape(one["name"])}" data-in="{escape(one["in"])}"'
    marks += " required" if one.get("required") else ""
    marks += " data-list" if schema.get("type") == "array" else ""
    shown = f'<label for="{label}">{escape(one["name"])}</label>'
    choices = ["true", "false"] if schema.get("type") == "boolean" else schema.get("enum")
    if choices:
        options = "".join(f"<option>{escape(str(choice))}</option>" for choice in choices)
        return f"{shown}<select{marks}><option></option>{options}</select>"
    kind = "number" if schema.get("type") == "integer" else "text"
    example = one.get("example")
    value = f' value="{escape(str(example))}"' if example is not None and one.get("required") else ""
    hint = "several, with commas between" if schema.get("type") == "array" else _hint(schema)
    return f'{shown}<input{marks} type="{kind}"{value} placeholder="{escape(hint)}" autocomplete="off">'


def _hint(schema: Json) -> str:
    if schema.get("default") not in (None, "", [], {}):
        return str(schema["default"])
    return "2026-03-01T09:00:00Z" if schema.get("format") == "date-time" else ""


def _body_form(form: str, media: str, example: str) -> str:
    label = f"{form}-body"
    return (
        f'<label for="{label}">Body</label><textarea id="{label}" data-in="body" data-media="{escape(media)}"'
        f' spellcheck="false" rows="8">{escape(example, quote=False)}</textarea>'
    )


COMMON = frozenset(
    {"401", "403", "408", "413", "415", "421", "429", "503"}
)  # that every call may get: told once
_PAGE = Template("""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Mindhold API</title>
<style>$style</style>
</head>
<body>
<a class="skip" href="#content">To the content</a>
<header class="top">
<h1>Mindhold API <small>$version</small></h1>
<div class="fields">
<label><span class="hidden-label">Filter (press / to come here)</span><input id="filter" type="search" placeholder="Filter  /" autocomplete="off"></label>
<label><span class="hidden-label">Access key, for trying; kept on this page only</span><input id="key" type="password" placeholder="Key, if one is needed" autocomplete="off"></label>
</div>
</header>
<div class="columns">
<nav class="index" aria-label="Contents"><details open><summary>Contents</summary>
$index
</details></nav>
<main id="content" tabindex="-1">
<section data-beside><h2>About</h2>$about
<p>The same for programs: <a href="/openapi.json"><code>/openapi.json</code></a> (OpenAPI 3.1). Agents come by MCP at <code>/mcp</code>.</p></section>
<p id="nothing" role="status" hidden>Nothing fits.</p>
$sections
$errors
$shapes
</main>
</div>
<script>$script</script>
</body>
</html>
""")


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """The text, and what a browser may do on it."""

    html: str
    policy: str


@cache
def render_docs_page() -> HtmlPage:
    """The same for every server of this version."""
    told = openapi_document()
    style, script = file_text("page.css"), file_text("page.js")
    html = _PAGE.substitute(
        style=style,
        script=script,
        version=escape(told["info"]["version"]),
        index=_index(told),
        about=prose(told["info"]["description"]),
        sections="".join(_section(tag, told) for tag in told["tags"]),
        errors=_errors(),
        shapes=_shapes(told),
    )
    return HtmlPage(html, policy_of(style, script))


def policy_of(style: str, script: str) -> str:
    """This style and this script, nothing from elsewhere, and nobody else to talk to."""
    return (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; connect-src 'self';"
        " img-src data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    )


def file_text(name: str) -> str:
    """What stands beside this module under that name."""
    return (
        files("mindhold.interfaces.http.rest")
        .joinpath(name)
        .read_text(encoding="utf-8")
        .replace("\r\n", "\n")
    )


def _hash(text: str) -> str:
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _operations(told: Json, tag: str) -> Iterator[tuple[str, str, Json]]:
    for path, methods in told["paths"].items():
        for method, operation in methods.items():
            if tag in operation["tags"]:
                yield path, method.upper(), operation


def _words(path: str, method: str, operation: Json) -> str:
    """What the filter looks in."""
    told = (method, path, operation["operationId"], operation["summary"], *operation["tags"])
    return escape(" ".join(told).lower())


def _index(told: Json) -> str:
    made = []
    for tag in told["tags"]:
        links = "".join(
            f'<li data-words="{_words(path, method, one)}"><a href="#{escape(one["operationId"])}">'
            f'<span class="method {method}">{method}</span><span>{escape(_short(one))}</span></a></li>'
            for path, method, one in _operations(told, tag["name"])
        )
        made.append(f"<div data-group><b>{escape(tag['name'])}</b><ul>{links}</ul></div>")
    ends = '<li><a href="#errors">Errors</a></li><li><a href="#shapes">Shapes</a></li>'
    return "".join(made) + f"<div data-beside><b>Reference</b><ul>{ends}</ul></div>"


def _short(operation: Json) -> str:
    return str(operation["operationId"]).replace("_", " ").capitalize()


def _section(tag: Json, told: Json) -> str:
    articles = "".join(_article(path, method, one) for path, method, one in _operations(told, tag["name"]))
    lead = f'<p class="lead">{inline(tag.get("description", ""))}</p>'
    return f"<section data-group><h2>{escape(tag['name'])}</h2>{lead}{articles}</section>"


def _article(path: str, method: str, operation: Json) -> str:
    name = escape(operation["operationId"])
    parameters = [resolve_reference(one) for one in operation.get("parameters", ())]
    asked = [_parameter(one) for one in parameters if one["in"] != "header"]
    named = ", ".join(f"<code>{escape(one['name'])}</code>" for one in parameters if one["in"] == "header")
    headers = f'<p class="also">Headers, if you like: {named}.</p>' if named else ""
    inside = "".join(
        (
            prose(operation.get("description", "")),
            table(asked, heading="Parameters"),
            _body(operation),
            headers,
            _samples(path, method, operation),
            _answer(operation),
            _failures(operation),
            form_of(path, method, operation, parameters),
        )
    )
    return (
        f'<article id="{name}" data-words="{_words(path, method, operation)}"><header>'
        f'<h3>{inline(operation["summary"])} <a class="anchor" href="#{name}" aria-label="Link to {name}">#</a></h3>'
        f'<span class="method {method}">{method}</span> <span class="path">{escape(path)}</span></header>'
        f'<div class="inside">{inside}</div></article>'
    )


def _parameter(one: Json) -> SchemaField:
    return SchemaField(
        one["name"], one["schema"], one.get("required", False), one.get("description", ""), f"in {one['in']}"
    )


def _body(operation: Json) -> str:
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        whole = resolve_reference(schema) if "$ref" in schema else schema
        if "properties" in whole:
            return table(fields_of(whole), heading="Body")
        words = operation["requestBody"].get("description", "")
        return f"<h4>Body</h4><p><code>{escape(media)}</code>: {inline(words)}</p>"
    return ""


def _samples(path: str, method: str, operation: Json) -> str:
    made = [("With curl", curl_of(path, method, operation))]
    if "Server" not in operation["tags"]:
        made.append(("With Python", python_of(operation)))
    if answer := example_answer(operation):
        made.append(("Answer", answer))
    return f'<div class="samples">{"".join(_sample(title, text) for title, text in made)}</div>'


def _sample(title: str, text: str) -> str:
    return (
        f'<div><h4>{title}</h4><div class="sample"><button type="button" class="copy" hidden>Copy</button>'
        f'<pre tabindex="0"><code class="sample-text">{escape(text, quote=False)}</code></pre></div></div>'
    )


def _answer(operation: Json) -> str:
    status, told = next((status, one) for status, one in operation["responses"].items() if status < "300")
    named = ", ".join(
        f"<code>{escape(name)}</code>" for name in told.get("headers", {}) if "Rate" not in name
    )
    headers = f"<p>Headers: {named}.</p>" if named else ""
    for media, content in told.get("content", {}).items():
        schema = content["schema"]
        whole = resolve_reference(schema) if "$ref" in schema else schema
        if fields := fields_of(whole):
            inside = table(fields, says_required=False)
        else:
            inside = f"<p><code>{escape(media)}</code> {inline(schema.get('description', ''))}</p>"
        return f"<details><summary>Fields of the answer ({status})</summary>{headers}{inside}</details>"
    return ""


def _failures(operation: Json) -> str:
    """Those of its own; what every call may get is told in one place."""
    rows = []
    for status, told in operation["responses"].items():
        if status < "400" or status in COMMON:
            continue
        codes = resolve_reference(told).get("content", {}).get(JSON, {}).get("examples", {})
        links = " ".join(
            f'<a href="#error-{code}"><code>{code}</code></a>' for code in codes if code not in EVERYWHERE
        )
        if links:
            words = inline(resolve_reference(told).get("description", ""))
            rows.append(f'<tr><th scope=row>{status}</th><td>{links}</td><td class="type">{words}</td></tr>')
    if not rows:
        return ""
    more = '<p>And those that <a href="#errors">every call may get</a>.</p>'
    return f"<details><summary>Errors</summary><div class=scroll><table><tbody>{''.join(rows)}</tbody></table></div>{more}</details>"


def _errors() -> str:
    made = []
    for status, (_, words) in TITLES.items():
        rows = "".join(
            f'<tr id="error-{one.code}"><th scope=row><code>{one.code}</code></th><td>{inline(one.error)}</td>'
            f'<td class="type">{inline(one.advice)}{_also(one)}</td></tr>'
            for one in FAILURES
            if one.status == status
        )
        head = "<thead><tr><th scope=col>code</th><th scope=col>error, such as</th><th scope=col>advice</th></tr></thead>"
        made.append(
            f'<article><header><h3>{status}: {inline(words)}</h3></header><div class="inside"><div class=scroll>'
            f'<table class="fields-table">{head}<tbody>{rows}</tbody></table></div></div></article>'
        )
    form = "One form for all: <code>error</code> in words, <code>code</code> for programs, mostly <code>advice</code>."
    return (
        f'<section id="errors" data-beside><h2>Errors</h2><p class="lead">{form}</p>{"".join(made)}</section>'
    )


def _also(one: Failure) -> str:
    return "".join(f" <code>{escape(name)}</code>: {escape(str(value))}" for name, value in one.more.items())


def _shapes(told: Json) -> str:
    made = []
    for name, schema in told["components"]["schemas"].items():
        inside = table(fields_of(schema), says_required=False) or f"<p>{type_of(schema)}</p>"
        words = f"<p>{inline(schema['description'])}</p>" if "description" in schema else ""
        made.append(
            f'<article id="shape-{escape(name)}"><header><h3>{escape(name)}</h3></header>'
            f'<div class="inside">{words}{inside}</div></article>'
        )
    return f'<section id="shapes" data-beside><h2>Shapes</h2><p class="lead">What answers and bodies are made of.</p>{"".join(made)}</section>'
