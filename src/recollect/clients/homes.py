"""Which home folder the files of a client name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from recollect.clients.claude import ENV, HOOKS, our_hook
from recollect.clients.files import loosely
from recollect.clients.json_text import Path as Keys
from recollect.clients.mcp_entry import NAME, our_server
from recollect.clients.program import VARIABLE


def homes_named(content: bytes | None, *, keys: Keys = ("mcpServers", NAME)) -> tuple[str, ...]:
    """Those of Claude Code's settings, and of the server at `keys`; none where nothing names one, or it can't be read."""
    document = loosely(content)
    server: Any = document
    for key in keys:
        server = server.get(key) if isinstance(server, dict) else None
    call = our_server(server)
    found = [_of_env(document), *(hook.home for hook in _hooks(document))]
    if call is not None:
        found += [_of_env(server), call.home]
    return tuple(dict.fromkeys(one for one in found if one))


def _of_env(entry: dict[str, Any]) -> str | None:
    variables = entry.get(ENV)
    value = variables.get(VARIABLE) if isinstance(variables, dict) else None
    return value if isinstance(value, str) else None


def _hooks(document: dict[str, Any]) -> Iterable[Any]:
    hooks = document.get(HOOKS)
    for groups in hooks.values() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            inner = group.get(HOOKS) if isinstance(group, dict) else None
            for handler in inner if isinstance(inner, list) else ():
                if (call := our_hook(handler)) is not None:
                    yield call
