"""What can be set of how much is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mindhold.settings.setting import setting


@dataclass(frozen=True, slots=True)
class RetentionSettings:
    level: Literal["keep-all", "moderate", "aggressive"] = setting(
        "moderate",
        "How much goes by itself: nothing, what is old and unused, or that in half the time.",
    )
    keep_months: int = setting(
        6,
        "Months that messages of conversations stay as they are; three weeks at least.",
        least=0,
        most=1_200,
    )
    unused_days: int = setting(
        365,
        "Days after which what nobody ever used is archived, if it isn't important; 0: never.",
        least=0,
        most=36_500,
    )
    most_items: int = setting(
        100_000, "Active memories before which older ones are condensed and archived; 0 is no limit.", least=0
    )
    most_megabytes: int = setting(
        500, "Megabytes of active memories before which that is done; 0 is no limit.", least=0
    )
    keep_pruned_files: int = setting(
        10,
        "Of how many days the files of what upkeep removed are kept in backups/, the newest.",
        least=1,
        most=10_000,
    )
