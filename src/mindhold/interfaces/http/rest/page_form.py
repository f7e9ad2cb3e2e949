"""The form with which a call is tried from the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from mindhold.interfaces.http.rest.page_samples import request_body

Json = Mapping[str, Any]


def form_of(path: str, method: str, operation: Json, parameters: Sequence[Json]) -> str:
    """Folded away; without the script it says nothing."""
    name = escape(operation["operationId"])
    fields = "".join(_field(name, one) for one in parameters)
    if body := request_body(operation):
        fields += _body(name, *body)
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


def _body(form: str, media: str, example: str) -> str:
    label = f"{form}-body"
    return (
        f'<label for="{label}">Body</label><textarea id="{label}" data-in="body" data-media="{escape(media)}"'
        f' spellcheck="false" rows="8">{escape(example, quote=False)}</textarea>'
    )
