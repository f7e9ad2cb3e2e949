"""What forgetting a past conversation takes and gives."""

from __future__ import annotations

from mindhold.engine.history.forgetting import Doomed
from mindhold.engine.surroundings import HIDDEN, shortened
from mindhold.model.memory import Memory
from mindhold.operations.catalogue import Input, Output
from mindhold.operations.history_forms import ConversationView
from mindhold.operations.views import ReceiptView

LONGEST_SHOWN = 200  # characters of a memory that would go
MOST_SHOWN = 50  # of them


class ForgetConversationInput(Input):
    """Which one. `preview` only tells what would go; `lift` lets a forgotten one be indexed and captured again."""

    session: str
    force: bool = False
    preview: bool = False
    lift: bool = False


class DoomedView(Output):
    """A memory that goes, or that stays because it is kept for good."""

    id: str
    content: str
    kind: str
    scope: str


def _doomed(memory: Memory) -> DoomedView:
    content = "(hidden)" if memory.status in HIDDEN else shortened(memory, LONGEST_SHOWN).content
    return DoomedView(id=memory.id, content=content, kind=memory.kind, scope=memory.scope)


class ForgetConversationResult(Output):
    """What would go or went. The receipt is there once it has; `originals` stay, for they are another program's.

    `repeated_in` are other conversations that have entries of it, resumed or forked: they stay until they are forgotten too.
    """

    session_id: str
    forgotten: bool
    already: bool = False  # it was forgotten before
    lifted: bool = False
    conversations: list[ConversationView] = []
    passages: int = 0
    archived: int = 0
    memories: list[DoomedView] = []
    memory_count: int = 0
    kept: list[DoomedView] = []
    originals: list[str] = []
    repeated_in: list[ConversationView] = []
    receipt: ReceiptView | None = None
    notice: str = ""

    @classmethod
    def of(cls, doomed: Doomed, *, forgotten: bool) -> ForgetConversationResult:
        """What there is of it."""
        return cls(
            session_id=doomed.session_id,
            forgotten=forgotten,
            conversations=[ConversationView.of(one) for one in doomed.files],
            passages=doomed.passages,
            archived=len(doomed.archived),
            memories=[] if forgotten else [_doomed(one) for one in doomed.memories[:MOST_SHOWN]],
            memory_count=len(doomed.memories),
            kept=[_doomed(one) for one in doomed.kept[:MOST_SHOWN]],
            originals=[str(file) for file in doomed.originals],
            repeated_in=[ConversationView.of(one) for one in doomed.repeated],
            already=doomed.already,
        )
