"""The list of what was asked to be tested names tests that there are."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
CHECKLIST = ROOT / "docs" / "SPEC3-CHECKLIST.md"
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_TARGET = re.compile(r"`make ([\w-]+)`")


def named() -> list[tuple[str, str]]:
    return sorted(set(_NAMED.findall(CHECKLIST.read_text(encoding="utf-8"))))


@cache
def functions_of(file: str) -> frozenset[str]:
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


@pytest.mark.parametrize(("file", "test"), named())
def test_a_named_test_exists(file: str, test: str) -> None:
    assert (ROOT / file).is_file()
    assert test in functions_of(file)


def test_every_row_says_where_it_is() -> None:
    rows = [line for line in CHECKLIST.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(rows) > 40
    assert all(len(row.split("|")) == 4 and row.split("|")[2].strip() for row in rows)


def test_every_named_target_is_in_the_makefile() -> None:
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(_TARGET.findall(CHECKLIST.read_text(encoding="utf-8"))) <= set(targets)
