"""Failures and what mended them: a command that failed, what was done, and the same command succeeding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mindhold.engine.capture.item import SIGNS
from mindhold.engine.capture.rules.candidate import LONGEST, Candidate
from mindhold.engine.capture.rules.causes import account_of, cause_of
from mindhold.engine.capture.rules.deeds import Deed, base_name, changing, commands, key, purpose_of
from mindhold.engine.capture.rules.speech import Sentence
from mindhold.engine.capture.rules.trouble import (
    Trouble,
    edited,
    how_mended,
    is_slip,
    shortened,
    telling_line,
)
from mindhold.engine.text.expression import Expression
from mindhold.model.error_signs import sign_of
from mindhold.model.memory import Kind

MOST_OPEN = 8

# A test that was written before what it tests.
_YET_TO_BE_WRITTEN = Expression(
    r"^\S*(?:_test|\.test|\.spec|test_\w+)\.\w+:.*\b(?:undefined: \w+$|cannot find name '\w+'|name '\w+' is not defined)",
    re.IGNORECASE,
)


def mended(done: Sequence[Deed], said: Sequence[Sentence], troubles: list[Trouble]) -> Iterator[Candidate]:
    """Failures that were mended; those that were not are left in `troubles`, the oldest first."""
    for deed in done:
        if deed.refused:
            continue
        if deed.writes:
            name = base_name(deed.asked)
            for trouble in troubles:
                if name and name not in trouble.files:
                    trouble.files.append(name)
        elif deed.shell and deed.failed:
            _note(deed, troubles)
        elif deed.shell and deed.answered:
            yield from _succeeded(deed, troubles, said)
            if change := changing(deed.asked):
                for trouble in troubles:
                    trouble.tries.append(change)
    del troubles[:-MOST_OPEN]


def _note(deed: Deed, troubles: list[Trouble]) -> None:
    signs = [sign for sign in deed.signs() if not is_slip(sign)]
    parts = commands(deed.asked)
    tried = next((part for part in reversed(parts) if purpose_of(part)), parts[-1] if parts else "")
    if not signs or not tried or _YET_TO_BE_WRITTEN.search(told := telling_line(deed.answer, signs)):
        return
    known = next((one for one in troubles if one.key == key(tried)), None)
    if known is None:
        troubles.append(Trouble(key(tried), tried, told, signs, deed.line))
    elif set(signs).isdisjoint(known.signs):
        known.signs = [*known.signs, *signs][:5]


def _succeeded(deed: Deed, troubles: list[Trouble], said: Sequence[Sentence]) -> Iterator[Candidate]:
    keys = {key(part): part for part in commands(deed.asked)}
    mended_now = [one for one in troubles if one.key in keys]
    for trouble in mended_now:
        troubles.remove(trouble)
        how = how_mended(trouble, keys[trouble.key])
        if not how:
            continue
        line = deed.answered or deed.line
        told, cured = account_of(said, trouble, after=line, alone=len(mended_now) == 1 and not troubles)
        cause = told or cause_of(said, trouble, until=line)
        yield Candidate(
            Kind.ERROR,
            _told(trouble, cause, how="" if cured and edited(how) else how),
            trouble.line,
            0.85 if cause else 0.6 if edited(how) else 0.7,
            supersedes=trouble.reported,
            metadata={SIGNS: trouble.signs[:5]},
        )


def _told(trouble: Trouble, cause: str, *, how: str) -> str:
    """The failure, why it was and how it was mended, as much as there is room for."""
    failed = trouble.told.rstrip(".")
    for parts in (
        (f"`{shortened(trouble.command)}` failed: {failed}.", cause, how),
        (f"{failed}.", cause, how),
        (f"{failed}.", cause or how),
    ):
        content = " ".join(part for part in parts if part)
        if len(content) <= LONGEST:
            break
    return content[:LONGEST]


def still_open(troubles: Sequence[Trouble]) -> Iterator[tuple[Trouble, str]]:
    """Failures of tests and builds that nothing has mended yet, in words."""
    for trouble in troubles:
        if purpose_of(trouble.command) and sign_of(trouble.told):
            yield (
                trouble,
                f"Unresolved: `{shortened(trouble.command)}` fails: {trouble.told.rstrip('.')}."[:LONGEST],
            )
