"""The counts of `make map`, on a small made-up package."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.call_path import Call, from_handler
from tools.code_map import (
    Module,
    calls_by_name,
    fields_of_class,
    gerunds,
    imports_of,
    metaphors,
    operation_names,
    read_modules,
    repeated_classes,
    source_counts,
)

FILES = {
    "__init__.py": "",
    "app.py": "from boat import sails\nfrom boat.crew.deck import Rope\n\ndef go():\n    import boat.desk\n",
    "sails.py": "class Rope: ...\nclass _Knot: ...\nSAIL = Operation('hoist', 'Raise it.')\n",
    "desk.py": "class _Knot: ...\n@operation('lower', reads=True)\nasync def lower(): ...\n",
    "crew/__init__.py": "from .deck import Rope\n",
    "crew/deck.py": "from ..sails import SAIL\nclass Rope: ...\n",
    "crew/embedding.py": "async def ask(boat, name: str) -> Any: ...\nasync def tell(name: str) -> int: ...\n",
    "crew/hauling_in.py": "async def work(boat):\n    await ask(boat, 'hoist')\n    await boat.ask('lower')\n"
    "    await ask(boat, 'swim')\n    await tell('hoist')\n",
}


@pytest.fixture
def modules(tmp_path: Path) -> dict[str, Module]:
    for name, text in FILES.items():
        path = tmp_path / "boat" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return read_modules(tmp_path, "boat")


def test_imports_are_found_wherever_they_are(modules: dict[str, Module]) -> None:
    assert imports_of(modules["boat.app"], modules) == {"boat.sails", "boat.crew.deck", "boat.desk"}
    assert imports_of(modules["boat.crew"], modules) == {"boat.crew.deck"}
    assert imports_of(modules["boat.crew.deck"], modules) == {"boat.sails"}


def test_names(modules: dict[str, Module]) -> None:
    assert repeated_classes(modules) == {"Rope": ["boat.crew.deck", "boat.sails"]}
    assert gerunds(modules) == ["boat.crew.hauling_in"]
    assert metaphors(modules) == ["boat.crew", "boat.desk"]


def test_operations_that_are_called_by_name(modules: dict[str, Module]) -> None:
    assert operation_names(modules) == {"hoist", "lower"}
    assert calls_by_name(modules) == ["boat.crew.hauling_in:2", "boat.crew.hauling_in:3"]


def test_sizes_and_fan_out(modules: dict[str, Module]) -> None:
    counts = source_counts(modules)
    assert (counts["modules"], counts["lines"], counts["median_lines"]) == (8, 21, 2.5)
    assert counts["fan_out_largest"] == {"module": "boat.app", "modules": 3}
    assert counts["fan_out_median"] == 0
    assert counts["one_importer"] == ["boat.desk"]
    assert len(counts["short"]) == 8


def test_fields_of_a_class() -> None:
    text = "class Other:\n    x: int\nclass Memory:\n    id: str\n    LIMIT = 3\n    tags: tuple[str, ...] = ()\n"
    assert fields_of_class(text, "Memory") == ["id", "tags"]
    assert fields_of_class("class (", "Memory") == []


def test_a_path_begins_where_the_interface_library_calls_us() -> None:
    names = ["_write", "<genexpr>", "handler"]
    inside = [Call("boat.store", name, False, 2) for name in names]
    library = Call(None, "invoke", True, 1)
    chain = [*inside[:2], Call(None, "run", False, 2), inside[2], library, Call("boat.app", "main", False, 0)]
    assert [call.name for call in from_handler(chain)] == ["handler", "_write"]
