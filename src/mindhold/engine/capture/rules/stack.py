"""What a project is made with, by the manifests that were read or written."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.deeds import Deed, base_name
from mindhold.engine.text.expression import Expression
from mindhold.model.memory import Kind

MOST_NAMED = 8  # of what a manifest depends on

_LINE_NUMBER = Expression(r"^\s*\d+[→\t|]", re.MULTILINE)
_GO_DEPENDENCY = Expression(r"^\s+(?:[\w.-]+/)+?([\w.-]+?)(?:/v\d+)? v\d\S*$", re.MULTILINE)
_TOML_NAME = Expression(r"^name\s*=\s*\"([^\"]+)\"", re.MULTILINE)
_CARGO_DEPENDENCY = Expression(r"^([\w-]+)\s*=\s*(?:\"|\{)", re.MULTILINE)
_PY_DEPENDENCY = Expression(
    r"^\s*\"([A-Za-z][\w.-]*)(?:\[[^\]]*\])?\s*(?:[<>=~!;][^\"]*)?\",?\s*$", re.MULTILINE
)


def stack(done: Sequence[Deed]) -> Iterator[Candidate]:
    """One statement a manifest."""
    for deed in done:
        if deed.tool != "Read" or deed.failed or any(one.writes and one.asked == deed.asked for one in done):
            continue  # of one that was changed afterwards nothing is known
        if told := manifest(deed.asked, deed.answer):
            yield Candidate(Kind.ARCHITECTURE, told, deed.line, 0.8)


def manifest(path: str, text: str) -> str:
    """What a manifest says the project is made with; empty when it is none, or says little."""
    text = _LINE_NUMBER.sub("", text)
    name = base_name(path)
    found: tuple[str, list[str]] | None = None
    if name == "go.mod" and (module := re.search(r"^module (\S+)", text, re.MULTILINE)):
        version = re.search(r"^go (\S+)", text, re.MULTILINE)
        direct = "\n".join(line for line in text.splitlines() if "// indirect" not in line)
        found = (
            f"{module[1]} is a Go {version[1] if version else ''} module",
            _GO_DEPENDENCY.findall(direct),
        )
    elif name == "Cargo.toml" and "[dependencies]" in text and (called := _TOML_NAME.search(text)):
        section = text.split("[dependencies]", 1)[1].split("\n[", 1)[0]
        found = (f"{called[1]} is a Rust crate", _CARGO_DEPENDENCY.findall(section))
    elif name == "pyproject.toml" and (called := _TOML_NAME.search(text)):
        listed = re.search(r"^dependencies\s*=\s*\[(.*?)^\]", text, re.DOTALL | re.MULTILINE)
        found = (f"{called[1]} is a Python project", _PY_DEPENDENCY.findall(listed[1]) if listed else [])
    elif name == "package.json":
        found = _node(text)
    if found is None or len(found[1]) < 2:
        return ""
    named = list(dict.fromkeys(found[1]))[:MOST_NAMED]
    return f"{' '.join(found[0].split())} that depends on {', '.join(named)} (`{name}`)."[:LONGEST]


def _node(text: str) -> tuple[str, list[str]] | None:
    try:
        told = json.loads(text[: text.rindex("}") + 1])
    except ValueError:
        return None
    needs = told.get("dependencies") if isinstance(told, dict) else None
    if not isinstance(needs, dict):
        return None
    return (f"{told.get('name') or 'The project'} is a Node package", [str(one) for one in needs])
