"""Which backups are made by themselves, and which go."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from mindhold.backup.create import StoredBackup, due_backup, outdated_backups
from mindhold.backup.folder import BackupReason
from mindhold.settings.sections import BackupSettings

MONDAY = date(2026, 3, 2)
RULES = BackupSettings(keep_daily=3, keep_weekly=2)


def on(day: int, made: BackupReason = BackupReason.DAILY, *, good: bool = True) -> StoredBackup:
    """Of so many days after that Monday."""
    when = MONDAY + timedelta(days=day)
    return StoredBackup(f"{made.name.lower()} {when}", when, made, good)


@pytest.mark.parametrize(
    ("there", "today", "made"),
    [
        ([], 0, BackupReason.WEEKLY),
        ([], 3, BackupReason.WEEKLY),  # the first of a week, whichever day that is
        ([on(0, BackupReason.WEEKLY)], 0, None),
        ([on(0, BackupReason.WEEKLY)], 1, BackupReason.DAILY),
        ([on(0, BackupReason.WEEKLY), on(1)], 1, None),
        ([on(0, BackupReason.WEEKLY), on(6)], 7, BackupReason.WEEKLY),
        ([on(0, BackupReason.WEEKLY, good=False)], 0, BackupReason.WEEKLY),  # what isn't whole doesn't count
        ([on(0, BackupReason.BY_HAND)], 0, BackupReason.WEEKLY),
        ([on(-1, BackupReason.WEEKLY)], 0, BackupReason.WEEKLY),  # Sunday is of the week before
    ],
)
def test_what_is_due(there: list[StoredBackup], today: int, made: BackupReason | None) -> None:
    assert due_backup(there, MONDAY + timedelta(days=today), RULES) == made


def test_without_weekly_ones_all_are_daily() -> None:
    assert due_backup([], MONDAY, BackupSettings(keep_weekly=0)) is BackupReason.DAILY


@pytest.mark.parametrize(
    ("there", "gone"),
    [
        ([], []),
        ([on(0), on(1), on(2)], []),
        ([on(0), on(1), on(2), on(3)], [0]),
        # The first of a week stands for its day, and stays longer than the others.
        ([on(0, BackupReason.WEEKLY), on(1), on(2), on(3), on(4)], [1]),
        (
            [
                on(-14, BackupReason.WEEKLY),
                on(-7, BackupReason.WEEKLY),
                on(0, BackupReason.WEEKLY),
                on(1),
                on(2),
                on(3),
            ],
            [-14],
        ),
        # Nobody asked for those to go.
        (
            [
                on(-50, BackupReason.BY_HAND),
                on(-40, BackupReason.SAFETY),
                on(-30, BackupReason.SCOPE),
                on(1),
                on(2),
                on(3),
                on(4),
            ],
            [1],
        ),
        # What isn't whole goes before what is, and the only good one never.
        ([on(0), on(1, good=False), on(2, good=False), on(3, good=False)], [1, 2, 3]),
        ([on(1, good=False), on(2, good=False)], []),
        ([on(0)], []),
    ],
)
def test_what_goes(there: list[StoredBackup], gone: list[int]) -> None:
    wanted = {MONDAY + timedelta(days=day) for day in gone}
    assert {one.day for one in there if one.name in outdated_backups(there, RULES)} == wanted


def test_a_year_of_days_keeps_what_it_should() -> None:
    there: list[StoredBackup] = []
    for day in range(366):
        made = due_backup(there, MONDAY + timedelta(days=day), RULES)
        assert made is not None
        there.append(on(day, made))
        drop = outdated_backups(there, RULES)
        there = [one for one in there if one.name not in drop]
        assert there[-1].day == MONDAY + timedelta(days=day)
        assert len(there) <= RULES.keep_daily + RULES.keep_weekly
    assert [one.day.isoweekday() for one in there if one.made is BackupReason.WEEKLY] == [1, 1]
