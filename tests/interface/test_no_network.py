"""Nothing needs a network, and nothing looks for one: an assistant's life in a namespace that has only loopback.

Linux only. Where no namespace can be had these tests fail and say so; `--without namespace` leaves them out, and tells.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LONGEST = 240.0

if sys.platform == "linux":

    def surroundings(told: Path) -> dict[str, str]:
        path = os.pathsep.join(str(one) for one in (HERE / "offline", HERE, HERE.parent))
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "PYTHONPATH": path, "ADDRESSES_TOLD": str(told)}

    @pytest.fixture
    def namespace(tmp_path: Path) -> Path:
        """Where addresses are told, once it is proved that one can be left alone here, and is overheard."""
        told = tmp_path / "probe.txt"
        script = "import offline_session as one; one.leave_network(); assert one.is_alone()"
        tried = subprocess.run(
            [sys.executable, "-c", script],
            env=surroundings(told),
            capture_output=True,
            encoding="utf-8",
            timeout=LONGEST,
            check=False,
        )
        if tried.returncode:
            pytest.fail(
                "No network namespace can be had here (as root, or with user namespaces, it can): "
                f"--without namespace leaves this out. {tried.stderr}"
            )
        assert "socket.connect 192.0.2.1" in told.read_text(encoding="utf-8")
        return tmp_path / "told.txt"

    @pytest.mark.parametrize("store", ["local", pytest.param("mongodb", marks=pytest.mark.needs("mongodb"))])
    def test_an_assistant_lives_without_a_network(namespace: Path, tmp_path: Path, store: str) -> None:
        for name in ("by_stdio", "by_http"):
            (tmp_path / name).mkdir()
        ended = subprocess.run(
            [sys.executable, str(HERE / "offline_session.py"), str(tmp_path), store],
            env=surroundings(namespace),
            capture_output=True,
            encoding="utf-8",
            timeout=LONGEST,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        assert not namespace.exists(), namespace.read_text(encoding="utf-8")
        overheard = namespace.with_name(f"{namespace.name}.overheard").read_text(encoding="utf-8")
        assert "-m mindhold mcp" in overheard
        assert "-m mindhold serve" in overheard
        assert ("mindhold.stores.mongo.server_process" in overheard) is (store == "mongodb")
        for name in ("by_stdio", "by_http"):
            data = tmp_path / name / ".mindhold" / "data"
            assert (data / "mongo" / "db").is_dir() is (store == "mongodb")
            assert (data / "mindhold.db").exists() is (store == "local")
