"""One JSON document, an item a line."""

from __future__ import annotations

import json
from typing import Any

from mindhold.engine.readable.parts import (
    End,
    Head,
    Item,
    Part,
    ScopeEnd,
    Section,
    SectionEnd,
    Talk,
    TalkEnd,
)
from mindhold.model.privacy import PERSONAL
from mindhold.model.scope import Scope


class JsonForm:
    """Written piece by piece: who comes after another in a list is told by `_following`."""

    ending = ".json"

    def __init__(self) -> None:
        self._following = False

    def written(self, part: Part) -> str:
        """The text for this part."""
        match part:
            case Head():
                head = {"mindhold": "readable export", "personal_data": True, "notice": PERSONAL}
                return self._open({**head, "created": part.created.isoformat()}, "scopes")
            case Scope():
                return self._comma() + self._open(_scope(part))
            case Section():
                self._following = False
                return f", {_text(part.name)}: ["
            case Talk():
                return self._comma() + self._open({"conversation_id": part.conversation}, "messages")
            case Item():
                comma, self._following = self._comma(), True
                return comma + _text(_item(part))
            case SectionEnd():
                return "\n]"
            case TalkEnd():
                return self._close("\n]}")
            case ScopeEnd():
                return self._close("}")
            case End():
                return f'\n], "memories": {part.memories}}}\n'

    def _comma(self) -> str:
        return ",\n" if self._following else "\n"

    def _open(self, fields: dict[str, Any], inside: str = "") -> str:
        self._following = False
        begun = _text(fields).removesuffix("}")
        return f"{begun}, {_text(inside)}: [" if inside else begun

    def _close(self, text: str) -> str:
        self._following = True
        return text


def _scope(scope: Scope) -> dict[str, Any]:
    return {
        "name": scope.name,
        "description": scope.description,
        "parent": scope.parent,
        "active": scope.active,
        "created": scope.created.isoformat(),
        "related_keywords": list(scope.keywords),
    }


def _item(item: Item) -> dict[str, Any]:
    shared: dict[str, Any] = {
        "id": item.id,
        "text": item.text,
        "timestamp": item.occurred.isoformat(),
        "status": item.status,
        "tags": list(item.tags),
    }
    if item.speaker:
        return {"speaker": item.speaker, **shared}
    return {
        **shared,
        "kind": item.kind,
        "source": item.source,
        "topic": item.topic,
        "importance": round(item.importance, 4),
        "created": item.created.isoformat(),
        "conversation_id": item.conversation,
    }


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
