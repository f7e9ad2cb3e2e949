"""The operation that tells how silent capture stands."""

from __future__ import annotations

from datetime import datetime

from mindhold.engine.capture.report import capture_report
from mindhold.engine.capture.state import CaptureState
from mindhold.operations.catalogue import Call, Effect, Input, Operation, Output


class CaptureStatusInput(Input):
    """Nothing to say."""


class ProjectCaptures(Output):
    """What was captured of a project; `rung` is who picked out: rules, or a model's name."""

    project: str
    captured_at: datetime | None
    conversation: str
    event: str
    captures: int
    stored: int
    rung: str
    problem: str
    problem_at: datetime | None

    @classmethod
    def of(cls, project: str, state: CaptureState) -> ProjectCaptures:
        """The state as its view."""
        return cls(
            project=project,
            captured_at=state.captured_at,
            conversation=state.conversation,
            event=state.event,
            captures=state.captures,
            stored=state.stored_total,
            rung=state.rung,
            problem=state.problem,
            problem_at=state.problem_at,
        )


class CaptureStatusResult(Output):
    """Projects, the one that was captured last first. `waiting` events are still to be worked off; `given_up` ones failed
    too often."""

    enabled: bool
    extract_with: str
    projects: list[ProjectCaptures]
    waiting: int
    given_up: int


async def _capture_status(call: Call, _given: CaptureStatusInput) -> CaptureStatusResult:
    policy = call.engine.policy.capture
    report = await capture_report(call.engine)
    return CaptureStatusResult(
        enabled=policy.enabled,
        extract_with="model" if policy.by_model else "rules",
        projects=[ProjectCaptures.of(name, state) for name, state in report.projects.items()],
        waiting=report.waiting,
        given_up=report.given_up,
    )


CAPTURE_STATUS = Operation(
    "capture_status",
    "How silent capture stands.",
    CaptureStatusInput,
    CaptureStatusResult,
    _capture_status,
    Effect.READS,
    owner_only=True,
)
