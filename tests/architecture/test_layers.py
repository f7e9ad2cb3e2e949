"""The import law, and how long a module may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "mindhold"

FEATURES = {
    "access",
    "backup",
    "capture",
    "conversations",
    "history",
    "jobs",
    "lifecycle",
    "memories",
    "profile",
    "projects",
}
CORE = {"aio", "engine", "locks", "operation_index", "operations"}
# What each part may import of ours, besides itself. `hooks` is what a hook process runs on: the standard library and `model`.
MAY_IMPORT = {
    "model": set(),
    "hooks": {"model"},
    "text": {"model"},
    "ports": {"model"},
    "settings": {"model"},
    "installers": {"hooks", "model"},
    "stores": {"hooks", "model", "ports", "text"},
    "providers": {"hooks", "model", "ports", "text"},
    **dict.fromkeys(FEATURES | CORE, FEATURES | CORE | {"hooks", "model", "ports", "settings", "text"}),
    "contracts": FEATURES | CORE | {"model", "text"},
    "interfaces": FEATURES | CORE | {"contracts", "hooks", "installers", "model", "settings", "text"},
    "client": FEATURES | CORE | {"contracts", "model"},
    "testing": {"model", "ports"},
    "app": FEATURES
    | CORE
    | {
        "client",
        "contracts",
        "hooks",
        "interfaces",
        "model",
        "ports",
        "providers",
        "settings",
        "stores",
        "text",
    },
    "__main__": {"app", "backup", "hooks", "interfaces", "model", "operations", "settings"},
    "migrate": {"__main__", "interfaces"},
    "__init__": set(),
}
LONGEST = 800
LONGER: dict[str, int] = {}  # exceptions; this list may only shrink


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imports_of(path: Path) -> Iterator[str]:
    """Dotted names of ours that a module imports, wherever in it."""
    for node in ast.walk(parsed(path)):
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
        if part_of(path) in ("settings", "hooks"):
            continue
        for node in ast.walk(parsed(path)):
            reads = isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}
            assert not (reads and isinstance(node.value, ast.Name) and node.value.id == "os"), path


def test_only_interfaces_and_app_load_settings() -> None:
    """Features are configured with settings objects; they never read the sources of settings."""
    for path in modules():
        if part_of(path) in FEATURES | CORE | {"contracts"}:
            assert not any(name.startswith("mindhold.settings.loader") for name in imports_of(path)), path


def test_broad_catches_only_in_outermost_handlers() -> None:
    # The store's writer hands each error to the caller that waits for it.
    outermost = {
        "app/history_index.py",
        "app/server.py",
        "app/worker.py",
        "interfaces/cli/main.py",
        "interfaces/hooks/event.py",
        "interfaces/hooks/statusline.py",
        "interfaces/mcp/server.py",
        "interfaces/mcp/http.py",
        "jobs/runner.py",
        "lifecycle/maintenance.py",  # runs the steps of others, as the runner does jobs
        "stores/mongo/changes.py",
        "stores/sqlite/connection.py",
    }
    for path in modules():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ExceptHandler):
                broad = node.type is None or (
                    isinstance(node.type, ast.Name) and node.type.id in {"Exception", "BaseException"}
                )
                passes_on = any(
                    isinstance(inner, ast.Raise) and inner.exc is None for inner in ast.walk(node)
                )
                relative = path.relative_to(SOURCE).as_posix()
                assert not broad or passes_on or relative in outermost, f"{relative}:{node.lineno}"
