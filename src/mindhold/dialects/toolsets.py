"""Which tools are served under which name. A dialect is imported when a toolset needs it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module

from mindhold.dialects.shape import Dialect, Tool
from mindhold.model.errors import InvalidInput

DIALECTS = ("capture", "history", "assistant", "project", "fragments")
CORE = "core"
ALL = "all"
KNOWN = (CORE, *DIALECTS, ALL)
DEFAULT = (CORE,)

# What daily work needs, and no more: each tool costs context in every call.
CORE_TOOLS: Mapping[str, tuple[str, ...]] = {
    "fragments": ("context", "remember", "recall", "amend", "forget", "link", "reflect"),
    "history": ("memory_recall",),
}


def dialect(name: str) -> Dialect:
    """The dialect of that name."""
    found: Dialect = getattr(import_module(f"mindhold.dialects.{name}"), name.upper())
    return found


def tools_of(toolsets: Iterable[str]) -> tuple[Tool, ...]:
    """The tools of these toolsets, which may also be joined by commas: in a fixed order, each once. Raises InvalidInput."""
    wanted = {name.strip().casefold() for names in toolsets for name in names.split(",") if name.strip()}
    if not wanted or not wanted.issubset(KNOWN):
        unknown = ", ".join(sorted(wanted.difference(KNOWN))) or "nothing"
        raise InvalidInput(f"There is no toolset {unknown}.", advice=f"Known are: {', '.join(KNOWN)}.")
    chosen: dict[str, Tool] = {}
    if wanted & {CORE, ALL}:
        for name, names in CORE_TOOLS.items():
            by_name = {tool.name: tool for tool in dialect(name).tools}
            chosen.update({one: by_name[one] for one in names})
    for name in DIALECTS:
        if name in wanted or ALL in wanted:
            chosen.update({tool.name: tool for tool in dialect(name).tools if tool.name not in chosen})
    return tuple(chosen.values())


def home_of(name: str) -> str | None:
    """The dialect that has a tool of that name."""
    return next((home for home in DIALECTS if any(tool.name == name for tool in dialect(home).tools)), None)
