"""The page at /docs: the OpenAPI document for people. It needs nothing from elsewhere, and works without its script."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from mindhold.dialects.rest.document import document, resolved
from mindhold.dialects.rest.failures import EVERYWHERE, FAILURES, TITLES, Failure
from mindhold.interfaces.http.rest.page_form import form_of
from mindhold.interfaces.http.rest.page_samples import curl_of, example_answer, python_of
from mindhold.interfaces.http.rest.page_tables import Field, fields_of, inline, prose, table, type_of

JSON = "application/json"
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
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """The text, and what a browser may do on it."""

    html: str
    policy: str


@cache
def page() -> Page:
    """The same for every server of this version."""
    told = document()
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
    return Page(html, policy_of(style, script))


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
    parameters = [resolved(one) for one in operation.get("parameters", ())]
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


def _parameter(one: Json) -> Field:
    return Field(
        one["name"], one["schema"], one.get("required", False), one.get("description", ""), f"in {one['in']}"
    )


def _body(operation: Json) -> str:
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = content["schema"]
        whole = resolved(schema) if "$ref" in schema else schema
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
        whole = resolved(schema) if "$ref" in schema else schema
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
        codes = resolved(told).get("content", {}).get(JSON, {}).get("examples", {})
        links = " ".join(
            f'<a href="#error-{code}"><code>{code}</code></a>' for code in codes if code not in EVERYWHERE
        )
        if links:
            words = inline(resolved(told).get("description", ""))
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
