"""Where `make test-conformance` has put the tools from npm."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

MODULES = Path(__file__).resolve().parents[2] / ".cache" / "conformance" / "node_modules"


def node() -> str:
    """The Node that came with them; the machine's own where npm carries none for it."""
    found = [path for name in ("bin/node", "bin/node.exe") for path in MODULES.glob(f"node-*/{name}")]
    chosen = str(found[0]) if found else shutil.which("node")
    assert chosen, "there is no Node: install version 22 or newer"
    return chosen


def script(package: str, name: str) -> str:
    """A package's command, as a file for Node."""
    folder = MODULES / package
    described = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    return str(folder / described["bin"][name])
