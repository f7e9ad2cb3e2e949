"""Nothing leaves the machine: what stands under Mindhold sends nothing of its own accord either."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from support.tiny_models import write_tiny_model

# Without those that a build server sets: there ONNX Runtime is silent whatever we do.
KEPT = ("PATH", "PYTHONPATH", "SYSTEMROOT", "COMSPEC", "PATHEXT", "TEMP", "TMP")


def test_the_runtime_of_models_leaves_no_trace_of_its_maker(tmp_path: Path) -> None:
    """Where it counts, it keeps an id of the machine and what waits to be sent in the person's folders."""
    person = tmp_path / "person"
    person.mkdir()
    write_tiny_model(tmp_path / "tiny")
    places = ("HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA")
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    env |= dict.fromkeys(places, str(person)) | {"MINDHOLD_HOME": str(tmp_path / "home")}
    for words in (
        ["models", "pull", str(tmp_path / "tiny")],
        ["remember", "Lamps are lit"],
        ["recall", "lit"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "mindhold", "-o", "embedding.model=tiny", *words],
            env=env,
            check=False,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
    assert "Lamps are lit" in done.stdout
    assert [str(path.relative_to(person)) for path in person.rglob("*")] == []
