"""What a language model keeps of conversations: through `capture`, as hooks use it, into a store of its own."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.extraction_labels import Picked

from mindhold.app.application import App, open_app
from mindhold.capture.capture import CAPTURE
from mindhold.memories.filters import LIST
from mindhold.settings.loader import load_settings
from mindhold.settings.sections import fallbacks

MOST_CALLS = 1_000  # for one conversation: none of it is left to rules
DAILY_TOKENS = 1_000_000_000
WAIT_SECONDS = 600
MOST_MEMORIES = 1_000


@dataclass(frozen=True, slots=True)
class ModelRun:
    """What was kept of the conversations, and by whom; `notices` say where rules stood in."""

    picked: tuple[Picked, ...]
    rungs: tuple[str, ...]
    notices: tuple[str, ...]


def model_settings(choice: str) -> dict[str, Any]:
    """Return the settings for a choice such as `anthropic`, `claude_cli:haiku` or `compatible:qwen3@http://localhost:11434/v1`.

    Keys come from where Mindhold itself looks for them. Raises ValueError.
    """
    chosen = fallbacks(choice)
    if len(chosen) != 1:
        raise ValueError("name one model")
    [model] = chosen
    return {
        "capture.extract_with": "model",
        "capture.most_calls": MOST_CALLS,
        "llm.provider": model.provider,
        "llm.wait_seconds": WAIT_SECONDS,
        "llm.daily_tokens": DAILY_TOKENS,
        **({"llm.model": model.model} if model.model else {}),
        **({"llm.base_url": model.address} if model.address else {}),
    }


def kept_by_model(files: Sequence[Path], choice: str, *, environment: Mapping[str, str]) -> ModelRun:
    """Capture each conversation whole, in a project of its own, and return what is kept of it at the end."""
    return asyncio.run(_kept(files, model_settings(choice), environment))


async def _kept(
    files: Sequence[Path], settings: Mapping[str, Any], environment: Mapping[str, str]
) -> ModelRun:
    picked: list[Picked] = []
    rungs: list[str] = []
    notices: list[str] = []
    for file in files:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            home, project = Path(folder) / "home", Path(folder) / file.stem
            project.mkdir()
            own = {"home": str(home), "embedding.provider": "none"}
            async with open_app(load_settings({**own, **settings}, environ=environment)) as app:
                captured = await app.run(
                    CAPTURE,
                    CAPTURE.takes(file=str(file), folder=str(project), event="SessionEnd", documents=False),
                )
                rungs.append(captured.rung)
                notices += [captured.notice] if captured.notice else []
                picked += await _stored(app, file)
    return ModelRun(tuple(picked), tuple(rungs), tuple(notices))


async def _stored(app: App, file: Path) -> list[Picked]:
    memories = (await app.run(LIST, LIST.takes(limit=MOST_MEMORIES, order="oldest"))).memories
    return [
        Picked(file.name, int(memory.provenance.get("line") or 0), memory.kind, memory.content)
        for memory in memories
    ]
