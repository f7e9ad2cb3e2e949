"""What resources take and give as JSON Schema, each shape once and by its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic.json_schema import models_json_schema

from mindhold.dialects.rest.shape import Resource
from mindhold.dialects.rest.words import meaning_of

PLACE = "#/components/schemas/"
Schema = dict[str, Any]
_UNSAID = frozenset({"title"})
_IN_HEADERS = frozenset({"etag"})  # of an answer's fields


class Schemas:
    """The shapes of a table of resources."""

    def __init__(self, rows: Iterable[Resource]) -> None:
        self._rows = tuple(rows)
        wanted = [(row.serves.takes, "validation") for row in self._rows]
        wanted += [(row.serves.gives, "serialization") for row in self._rows]
        places, whole = models_json_schema(
            list(dict.fromkeys(wanted)),  # type: ignore[arg-type]
            ref_template=f"{PLACE}{{model}}",
        )
        self._places = {(model, mode): place["$ref"] for (model, mode), place in places.items()}
        self._versioned = {
            self._places[row.serves.gives, "serialization"].removeprefix(PLACE)
            for row in self._rows
            if row.versioned
        }
        self._known: dict[str, Schema] = {name: _pruned(one) for name, one in whole.get("$defs", {}).items()}
        self._bodies = {row.name: body for row in self._rows if (body := self._body_of(row))}

    def answer(self, row: Resource) -> Schema:
        """What it is answered with."""
        return {"$ref": self._places[row.serves.gives, "serialization"]}

    def body(self, row: Resource) -> Schema | None:
        """What its request's body holds; None where it has none."""
        return {"$ref": f"{PLACE}{request_name(row)}"} if row.name in self._bodies else None

    def needs_body(self, row: Resource) -> bool:
        """Whether something in it can't be left out."""
        return bool(self._bodies.get(row.name, {}).get("required"))

    def parameter(self, row: Resource, word: str) -> tuple[Schema, bool]:
        """One word of the path or the query, and whether it must be given. Nothing there is null."""
        taken = self._taken(row)
        name = row.fields()[word]
        schema = _without_null(taken["properties"][name])
        if word in row.in_path() and schema.get("type") == "array":  # stands for a list of one
            schema = schema["items"]
        return schema, word in row.in_path() or name in taken.get("required", ())

    def description(self, row: Resource, word: str) -> str:
        """What a word means here."""
        schema = self._taken(row)["properties"][row.fields()[word]]
        return str(schema.get("description") or meaning_of(row.operation, word))

    def components(self) -> dict[str, Schema]:
        """Every shape that the others name, by name."""
        bodies = {request_name(row): self._bodies[row.name] for row in self._rows if row.name in self._bodies}
        answers = [self.answer(row) for row in self._rows if row.stream not in ("export", "events")]
        found: dict[str, Schema] = {}
        waiting = [*bodies.values(), *answers, *(self._parameters())]
        while waiting:
            for name in _named_in(waiting.pop()):
                if name not in found and name in self._known:
                    found[name] = _told(
                        self._known[name], unsaid=_IN_HEADERS if name in self._versioned else frozenset()
                    )
                    waiting.append(found[name])
        return dict(sorted({**found, **bodies}.items()))

    def _parameters(self) -> list[Schema]:
        return [
            self.parameter(row, word)[0] for row in self._rows for word in (*row.in_path(), *row.in_query())
        ]

    def _taken(self, row: Resource) -> Schema:
        place = self._places[row.serves.takes, "validation"]
        return self._known[place.removeprefix(PLACE)]

    def _body_of(self, row: Resource) -> Schema | None:
        """The operation's own input, less what comes otherwise, in the request's words."""
        words = row.in_body()
        if not words or row.stream == "import":
            return None
        taken, fields = self._taken(row), row.fields()
        properties = {
            word: {**taken["properties"][fields[word]], **_said(self.description(row, word))}
            for word in words
        }
        required = [word for word in words if fields[word] in taken.get("required", ())]
        return {
            "type": "object",
            "properties": properties,
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }


def request_name(row: Resource) -> str:
    """A body's name among the components."""
    return "".join(part.capitalize() for part in re.split(r"[_\W]+", row.name)) + "Request"


def _said(description: str) -> Schema:
    return {"description": description} if description else {}


def _told(schema: Schema, *, unsaid: frozenset[str]) -> Schema:
    """With what the fields mean, and without those that come as headers."""
    if "properties" not in schema:
        return schema
    kept = {name: one for name, one in schema["properties"].items() if name not in unsaid}
    properties = {
        name: {**one, **_said(str(one.get("description") or meaning_of("", name)))}
        for name, one in kept.items()
    }
    required = [name for name in schema.get("required", ()) if name in kept]
    rest = {key: value for key, value in schema.items() if key not in ("properties", "required")}
    return {**rest, "properties": properties, **({"required": required} if required else {})}


def _pruned(node: Any) -> Any:
    """No titles, which repeat the names, and no defaults of null, which say what leaving out says."""
    if isinstance(node, list):
        return [_pruned(one) for one in node]
    if not isinstance(node, dict):
        return node
    made: Schema = {}
    for key, value in node.items():
        if key in ("properties", "$defs"):
            made[key] = {name: _pruned(one) for name, one in value.items()}
        elif key in ("enum", "const", "examples", "default"):
            if not (key == "default" and value is None):
                made[key] = value
        elif key not in _UNSAID:
            made[key] = _pruned(value)
    return made


def _without_null(schema: Mapping[str, Any]) -> Schema:
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "description")}
    given = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    if not given:
        return rest
    return {**given[0], **rest} if len(given) == 1 else {"anyOf": given, **rest}


def _named_in(node: Any) -> list[str]:
    """The components that a schema names."""
    if isinstance(node, list):
        return [name for one in node for name in _named_in(one)]
    if not isinstance(node, dict):
        return []
    own = [node["$ref"].removeprefix(PLACE)] if isinstance(node.get("$ref"), str) else []
    return own + [name for value in node.values() for name in _named_in(value)]
