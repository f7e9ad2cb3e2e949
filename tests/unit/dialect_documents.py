"""The documents that the dialects' contracts come from; they stand beside the repository of those who have them."""

from __future__ import annotations

from pathlib import Path

SPECS = Path(__file__).parents[3] / "shared" / "specs"


def document(beginning: str) -> str:
    """The text of the one whose name begins so."""
    return next(SPECS.glob(f"{beginning}-*.md")).read_text(encoding="utf-8")
