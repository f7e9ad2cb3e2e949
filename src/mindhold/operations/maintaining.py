"""The operation of maintenance: all upkeep in one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import monotonic, perf_counter

from pydantic import Field

from mindhold.engine.maintain import BACKUP, Maintained, Step, run
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output
from mindhold.operations.consolidating import JOBS, run_due_jobs

# What a count is told as; any other as its own words and the number.
_NAMES = {
    "merged": "removed_{}_duplicate_entries",
    "archived": "archived_{}_memories",
    "erased": "erased_{}_memories",
    "recapped": "summarized_{}_conversations",
    "gathered": "summarized_{}_months_or_years",
    "bytes freed": "compacted_db",
    "repaired": "rebuilt_indexes",
    "old jobs dropped": "dropped_{}_old_jobs",
    "expired notes dropped": "dropped_{}_expired_notes",
}
_FOUND = frozenset({"stale", "doubtful"})  # and not done


class MaintainInput(Input):
    """All steps unless some are named; without the backup where that is false. A dry run changes nothing."""

    dry_run: bool = False
    steps: tuple[str, ...] = ()
    backup: bool = True
    seconds: float | None = Field(default=None, gt=0, le=86_400)  # as maintenance.seconds has it


class StepView(Output):
    """What one step did; `more`: it stopped at its bounds, and goes on from there the next time. `error`: it failed, and why."""

    step: str
    changed: int
    detail: str
    seconds: float = 0.0
    more: bool = False
    counts: dict[str, int] = {}
    code: str = ""
    error: str = ""

    @classmethod
    def of(cls, step: Step) -> StepView:
        stage = step.stage
        return cls(
            step=stage.name,
            changed=stage.changed,
            detail=stage.detail,
            seconds=round(stage.seconds, 3),
            more=stage.more,
            counts=dict(stage.counts),
            code=step.code,
            error=step.error,
        )


class MaintainResult(Output):
    """Every step that ran; `operations` are the changes by name, empty when there was nothing to do."""

    steps: list[StepView]
    operations: list[str]
    failed: list[str] = []
    seconds: float
    dry_run: bool = False
    notice: str = ""  # why nothing was done


async def _maintain(call: Call, given: MaintainInput) -> MaintainResult:
    begun = perf_counter()
    limit = call.engine.policy.maintenance.seconds if given.seconds is None else given.seconds
    until = monotonic() + limit
    with_jobs = not given.dry_run and not given.steps
    report = await run(
        call.engine,
        dry=given.dry_run,
        seconds=given.seconds,
        steps=given.steps,
        besides=() if given.backup else (BACKUP,),
        tell=lambda name, done, total: call.progress(name, done, total + with_jobs),
    )
    steps = list(report.steps)
    if with_jobs and not report.notice:
        call.progress(JOBS, len(steps), len(steps) + 1)
        steps.append(Step(await run_due_jobs(call, until=until)))
    return _result(report, steps, seconds=perf_counter() - begun)


def _result(report: Maintained, steps: Sequence[Step], *, seconds: float) -> MaintainResult:
    return MaintainResult(
        steps=[StepView.of(step) for step in steps],
        operations=[told for step in steps for told in _told(step)],
        failed=report.failed,
        seconds=round(seconds, 3),
        dry_run=report.dry,
        notice=report.notice,
    )


def _told(step: Step) -> Iterator[str]:
    """`removed_20_duplicate_entries`, `compacted_db`; by the step's name where it counts nothing by name."""
    stage = step.stage
    counts = {what: number for what, number in stage.counts.items() if number and what not in _FOUND}
    for what, number in counts.items():
        usual = f"{what}_{number}"
        yield _NAMES.get(what, usual).format(number).replace(" ", "_")
    if stage.changed and not counts:
        yield f"{stage.name}_{stage.changed}"


MAINTAIN = Operation(
    "maintain",
    "Do all the upkeep in one run.",
    MaintainInput,
    MaintainResult,
    _maintain,
    Effect.WRITES,
    owner_only=True,
)
