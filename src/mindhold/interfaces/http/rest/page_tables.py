"""Schemas as tables that a person can read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

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
class Field:
    """A row: a parameter, or a property."""

    name: str
    schema: Mapping[str, Any]
    required: bool
    description: str = ""
    where: str = ""


def fields_of(schema: Mapping[str, Any]) -> list[Field]:
    """The properties of an object."""
    required = schema.get("required", ())
    return [
        Field(name, one, name in required, one.get("description", ""))
        for name, one in schema.get("properties", {}).items()
    ]


def table(fields: Iterable[Field], *, heading: str = "", says_required: bool = True) -> str:
    """Nothing where there are none."""
    rows = "".join(_row(field, says_required=says_required) for field in fields)
    if not rows:
        return ""
    head = (
        "<thead><tr><th scope=col>Name</th><th scope=col>Type</th><th scope=col>What it is</th></tr></thead>"
    )
    above = f"<h4>{escape(heading)}</h4>" if heading else ""
    return f'{above}<div class=scroll><table class="fields-table">{head}<tbody>{rows}</tbody></table></div>'


def _row(field: Field, *, says_required: bool) -> str:
    schema = given(field.schema) if says_required else field.schema
    must = ' <span class="must">required</span>' if field.required and says_required else ""
    where = f' <span class="where">{escape(field.where)}</span>' if field.where else ""
    return (
        f"<tr><th scope=row><code>{escape(field.name)}</code>{must}{where}</th>"
        f'<td class="type">{type_of(schema)}{_default(schema) if says_required else ""}</td><td>{inline(field.description)}</td></tr>'
    )


def given(schema: Mapping[str, Any]) -> Mapping[str, Any]:
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
