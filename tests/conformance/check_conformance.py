"""The protocol's official conformance suite against `mindhold serve`. Run by `make test-conformance`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from mcp_clients import HttpServer
from node_tools import node, script

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    home = tmp_path_factory.mktemp("conformance") / "home"
    with HttpServer(home, toolsets="all") as server:
        yield server


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_scenario_passes_or_is_in_the_baseline(
    revision: str, server: HttpServer, tmp_path: Path
) -> None:
    done = subprocess.run(
        [
            node(),
            script("@modelcontextprotocol/conformance", "conformance"),
            "server",
            "--url",
            f"{server.url}/mcp",
            "--requirements",
            revision,
            "--expected-failures",
            str(HERE / "baseline.yml"),
            "--output-dir",
            str(tmp_path),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    _, _, summary = done.stdout.partition("=== SUMMARY ===")
    assert done.returncode == 0, summary or done.stdout
    assert "✓ tools-list" in summary
