"""What can be set of the model that tells contradictions."""

from __future__ import annotations

from dataclasses import dataclass

from mindhold.settings.setting import setting


@dataclass(frozen=True, slots=True)
class NliSettings:
    model: str = setting(
        "auto",
        "Which pulled model tells contradictions where the rules aren't sure; auto takes the one that is here, none "
        "leaves it to the rules.",
    )
    threads: int = setting(0, "Pairs that it judges at once; 0 chooses by the machine.", least=0, most=64)
