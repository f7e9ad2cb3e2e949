"""The law of the house: who may import whom, and how long a module may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mindhold"

# What each part may import of ours, besides itself.
MAY_IMPORT = {
    "model": set(),
    "bare": {"model"},
    "clients": {"bare", "model"},
    "ports": {"model"},
    "stores": {"model", "ports"},
    "providers": {"bare", "model", "ports"},
    "engine": {"bare", "model", "ports"},
    "jobs": {"engine", "model", "ports"},
    "operations": {"engine", "jobs", "model", "ports"},
    "dialects": {"operations", "model"},
    "interfaces": {"bare", "clients", "dialects", "operations", "model", "settings"},
    "client": {"dialects", "model", "operations"},
    "testing": {"model", "ports"},
    "settings": {"model"},
    "service_meaning": {"engine", "model", "ports", "providers", "settings"},
    "meanings": {"engine", "model", "ports", "providers", "service_meaning", "settings"},
    "classifying": {"engine", "ports", "providers", "settings"},
    "languages": {"model", "ports", "providers", "settings"},
    "policies": {"engine", "model", "settings"},
    "recursion": {"ports", "providers", "settings"},
    "transcribing": {"providers", "settings"},
    "home": {"bare", "model"},
    "housing": {"model", "ports", "settings", "stores"},
    "housing_redis": {"model", "ports", "settings", "stores"},
    "damage": {"engine", "housing", "housing_redis", "model", "ports", "settings", "stores"},
    "grounding": {"housing", "model", "ports", "settings", "stores"},
    "app": {
        "bare",
        "classifying",
        "damage",
        "engine",
        "home",
        "grounding",
        "housing",
        "housing_redis",
        "jobs",
        "languages",
        "meanings",
        "model",
        "operations",
        "policies",
        "ports",
        "providers",
        "recursion",
        "settings",
        "stores",
        "transcribing",
    },
    # The command line's Mindhold that is a server elsewhere: put together like the app, out of the client.
    "remote": {"client", "interfaces", "model", "operations", "settings"},
    "restoring": {"app", "engine", "grounding", "home", "model", "operations", "ports", "settings", "stores"},
    "doors": {"app", "bare", "interfaces", "model", "settings", "watching"},
    "worker": {"app", "bare", "interfaces", "model", "settings"},
    "watching": {"interfaces", "model"},
    "indexer": {"app", "bare", "interfaces", "model", "settings"},
    "__main__": {
        "app",
        "bare",
        "damage",
        "doors",
        "indexer",
        "interfaces",
        "operations",
        "remote",
        "restoring",
        "settings",
        "worker",
    },
    "migrate": {"__main__", "interfaces"},
    "__init__": set(),
}
LONGEST = 400
LONGER: dict[str, int] = {}  # exceptions; this list may only shrink


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def part_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports_of(path: Path) -> Iterator[str]:
    """Dotted names of ours that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            pytest.fail(f"{path} uses a relative import")


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_stay_within_the_layers(path: Path) -> None:
    part = part_of(path)
    allowed = MAY_IMPORT[part] | {part}
    for name in imports_of(path):
        pieces = name.split(".")
        if pieces[0] == "mindhold" and len(pieces) > 1 and pieces[1] in MAY_IMPORT:
            assert pieces[1] in allowed, f"{part} may not import {name}"


@pytest.mark.parametrize("family", ["stores", "interfaces"])
def test_siblings_do_not_know_each_other(family: str) -> None:
    for path in (SOURCE / family).rglob("*.py"):
        relative = path.relative_to(SOURCE / family)
        if len(relative.parts) == 1:
            continue
        for name in imports_of(path):
            pieces = name.split(".")
            if pieces[:2] == ["mindhold", family] and len(pieces) > 3:
                sibling = SOURCE / family / pieces[2]
                assert not sibling.is_dir() or pieces[2] == relative.parts[0], f"{path} imports {name}"


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_modules_stay_short(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= LONGER.get(str(path.relative_to(SOURCE)), LONGEST)


def test_exceptions_are_still_needed() -> None:
    for name, allowed in LONGER.items():
        lines = len((SOURCE / name).read_text(encoding="utf-8").splitlines())
        assert LONGEST < lines <= allowed


def test_only_settings_reads_the_environment() -> None:
    for path in modules():
        if part_of(path) in ("settings", "bare"):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            reads = isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
            assert not (reads and isinstance(node.value, ast.Name) and node.value.id == "os"), path


def test_broad_catches_only_in_outermost_handlers() -> None:
    # The store's writer hands each error to the caller that waits for it.
    outermost = {
        "doors.py",
        "engine/maintain.py",  # runs the steps of others, as the runner does jobs
        "indexer.py",
        "jobs/runner.py",
        "interfaces/cli/main.py",
        "interfaces/hooks/door.py",
        "interfaces/hooks/statusline.py",
        "interfaces/mcp/server.py",
        "interfaces/mcp/sessions.py",
        "stores/mongo/together.py",
        "stores/sqlite/connection.py",
        "worker.py",
    }
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ExceptHandler):
                broad = node.type is None or (
                    isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
                )
                passes_on = any(
                    isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node)
                )
                relative = path.relative_to(SOURCE).as_posix()
                assert not broad or passes_on or relative in outermost, f"{relative}:{node.lineno}"
