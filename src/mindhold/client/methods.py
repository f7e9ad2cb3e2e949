"""The methods of both clients: memories, projects, messages, summaries and exports."""

from __future__ import annotations

import errno
import json
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from mindhold.client.wire import (
    LINES,
    ClientMethods,
    ClientRequest,
    Exchange,
    Message,
    Method,
    PagedMethod,
    PageReader,
    Pause,
    ResultPage,
)
from mindhold.model.errors import ServerError, StoreError, StoreFull, StoreReadOnly
from mindhold.model.memory import PRIVACY_NOTICE

if TYPE_CHECKING:
    from mindhold.conversations.message_import import SaveMessagesResult
    from mindhold.conversations.message_log import (
        DeleteMessagesResult,
        RecentMessagesResult,
        SaveMessageResult,
        SearchMessagesResult,
    )
    from mindhold.conversations.messages import MessageView
    from mindhold.lifecycle.status import StatusResult
    from mindhold.memories.amend import AmendResult
    from mindhold.memories.ask import AskResult
    from mindhold.memories.context import ContextResult
    from mindhold.memories.filters import ShowResult, TagsResult
    from mindhold.memories.forget import ForgetResult, UnforgetResult
    from mindhold.memories.links import LinkResult
    from mindhold.memories.recall import RecallResult
    from mindhold.memories.remember import RememberManyResult, RememberResult
    from mindhold.memories.stats import StatsResult
    from mindhold.memories.timeline import TimelineResult
    from mindhold.memories.transfer import ExportResult
    from mindhold.memories.views import MemoryView
    from mindhold.projects.context import ProjectStatsResult
    from mindhold.projects.projects import DeleteProjectResult, ListProjectsResult, ProjectView
    from mindhold.projects.reindex import ReindexProjectResult, ReindexStatusResult
    from mindhold.projects.scope_operations import ListScopesResult, ScopeView
    from mindhold.projects.summary_update import (
        ProjectSummaryResult,
        ReplaceSummaryResult,
        UpdateSummaryResult,
    )
    from mindhold.projects.summary_versions import (
        RestoreSummaryResult,
        SummaryDiffResult,
        SummaryVersionsResult,
    )


class Download:
    """Writes an export to a file that appears only when it is complete, and counts its records."""

    def __init__(self, path: Path) -> None:
        self._path = path.expanduser()
        self._partial = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}.partial")
        self._counts: Counter[str] = Counter()
        self._rest = b""

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._partial.open("xb")
            self._partial.chmod(0o600)
        except OSError as error:
            raise self._file_error(error) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, piece: bytes, /) -> None:
        """Write the next piece, cut anywhere. Raises StoreFull, StoreReadOnly."""
        try:
            self._file.write(piece)
        except OSError as error:
            raise self._file_error(error) from error
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._counts[_record_kind(line)] += 1

    def finish(self) -> ExportResult:
        """Move the file into place. Raises ServerError for an incomplete export, StoreFull, StoreReadOnly."""
        from mindhold.memories.transfer import ExportResult

        if self._rest or self._counts["head"] != 1:
            raise ServerError("What the server sent is no whole export.", advice="Try again.")
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
        except OSError as error:
            raise self._file_error(error) from error
        counts = self._counts
        return ExportResult(
            path=str(self._path),
            memories=counts["memory"],
            links=counts["link"],
            versions=counts["version"],
            scopes=counts["scope"],
            contradictions=counts["contradiction"],
            notice=PRIVACY_NOTICE,
        )

    def _file_error(self, error: OSError) -> StoreFull | StoreReadOnly:
        kind = StoreFull if error.errno == errno.ENOSPC else StoreReadOnly
        return kind(f"The export to {self._path} failed: {error.strerror}.", advice="Choose another place.")


def _record_kind(line: bytes) -> str:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    return "head" if document.get("mindhold") == "export" else str(document.get("type", ""))


PAGE = 200
Words = Iterable[str]
LISTS = frozenset({"ids", "items", "tags", "kinds", "key_decisions", "tech_stack", "patterns", "gotchas"})


def _fields(arguments: dict[str, Any], **names: str) -> dict[str, Any]:
    """Turn the arguments of a method into the fields of its operation; `names` renames some."""
    fields = {
        names.get(name, name): value for name, value in arguments.items() if name not in ("self", "more")
    }
    for name in fields.keys() & LISTS:
        if fields[name] is not None:  # one word is a list of one word, not of letters
            fields[name] = [fields[name]] if isinstance(fields[name], str) else list(fields[name])
    return {**fields, **arguments.get("more", {})}


class MemoryMethods(ClientMethods):
    """Methods about memories, scopes and the server.

    Each takes the fields of its operation; `more` takes the rarer ones. None means not given.
    """

    @Method
    def run(self, name: str, /, **fields: Any) -> Exchange[Any]:
        """Run any operation of the server by its name in /openapi.json; returns the operation's output."""
        return self.wire.run(name, fields)

    @Method
    def remember(
        self,
        /,
        content: str,
        *,
        kind: str | None = None,
        scope: str | None = None,
        topic: str | None = None,
        tags: Words | None = None,
        importance: float | None = None,
        occurred: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
        key: str | None = None,
        **more: Any,
    ) -> Exchange[RememberResult]:
        """Store one memory. The same `key` within a day stores nothing new and repeats the answer."""
        return self.wire.run("remember", _fields(locals(), key="idempotency_key"))

    @Method
    def remember_many(
        self, /, items: Iterable[Mapping[str, Any]], *, scope: str | None = None, **more: Any
    ) -> Exchange[RememberManyResult]:
        """Store several memories, each with the fields of `remember`; each has its own result."""
        return self.wire.run("remember_many", _fields(locals()))

    @Method
    def recall(
        self,
        /,
        query: str = "",
        *,
        scope: str | None = None,
        everywhere: bool | None = None,
        tags: Words | None = None,
        kinds: Words | None = None,
        topic: str | None = None,
        when: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        token_budget: int | None = None,
        **more: Any,
    ) -> Exchange[RecallResult]:
        """Find memories for a question, best first; `when` is a time in words, such as "last week"."""
        return self.wire.run("recall", _fields(locals()))

    @PagedMethod
    def memories(
        self,
        /,
        *,
        scope: str | None = None,
        tags: Words | None = None,
        kinds: Words | None = None,
        topic: str | None = None,
        when: str | None = None,
        order: str | None = None,
        page: int = PAGE,
        **more: Any,
    ) -> PageReader[MemoryView]:
        """Iterate over all memories that match, newest first by default; fetched `page` by page."""
        fields = _fields(locals(), page="limit")

        def read_page(cursor: str | None) -> Exchange[ResultPage[MemoryView]]:
            result = yield from self.wire.run("list", {**fields, "cursor": cursor})
            return ResultPage(result.memories, result.next)

        return read_page

    @Method
    def show(self, id: str) -> Exchange[ShowResult]:
        """Return a memory with its links and earlier versions; a prefix of its id is enough."""
        return self.wire.run("show", _fields(locals()))

    @Method
    def amend(
        self,
        /,
        id: str,
        *,
        content: str | None = None,
        tags: Words | None = None,
        importance: float | None = None,
        **more: Any,
    ) -> Exchange[AmendResult]:
        """Change the given fields of a memory; the earlier text stays among its versions."""
        return self.wire.run("amend", _fields(locals()))

    @Method
    def forget(self, /, *ids: str, hard: bool | None = None, **more: Any) -> Exchange[ForgetResult]:
        """Hide memories everywhere; with `hard`, remove them for good."""
        return self.wire.run("forget", _fields(locals()))

    @Method
    def unforget(self, *ids: str) -> Exchange[UnforgetResult]:
        """Bring back memories that were forgotten without `hard`."""
        return self.wire.run("unforget", _fields(locals()))

    @Method
    def link(self, origin: str, target: str, *, relation: str | None = None) -> Exchange[LinkResult]:
        """Link two memories by a relation."""
        return self.wire.run("link", _fields(locals()))

    @Method
    def scopes(self) -> Exchange[ListScopesResult]:
        """List every scope with its counts."""
        return self.wire.run("list_scopes", {})

    @Method
    def create_scope(
        self, /, name: str, *, description: str | None = None, parent: str | None = None, **more: Any
    ) -> Exchange[ScopeView]:
        """Create a scope."""
        return self.wire.run("create_scope", _fields(locals()))

    @Method
    def tags(self, *, scope: str | None = None) -> Exchange[TagsResult]:
        """List tags and how many memories have each."""
        return self.wire.run("tags", _fields(locals()))

    @Method
    def timeline(
        self,
        /,
        when: str | None = None,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        scope: str | None = None,
        limit: int | None = None,
        **more: Any,
    ) -> Exchange[TimelineResult]:
        """List memories by the day they are about."""
        return self.wire.run("timeline", _fields(locals()))

    @Method
    def context(
        self, /, *, token_budget: int | None = None, scope: str | None = None, **more: Any
    ) -> Exchange[ContextResult]:
        """Return what an agent gets when a conversation begins, within a token budget."""
        return self.wire.run("context", _fields(locals()))

    @Method
    def ask(
        self, question: str, *, scope: str | None = None, limit: int | None = None
    ) -> Exchange[AskResult]:
        """Answer a question from memory, with sources."""
        return self.wire.run("ask", _fields(locals()))

    @Method
    def status(self) -> Exchange[StatusResult]:
        """Return the state of the server."""
        return self.wire.run("status", {})

    @Method
    def memory_stats(self) -> Exchange[StatsResult]:
        """Count memories by kind, tier, scope and status."""
        return self.wire.run("stats", {})

    @Method
    def export(
        self, path: str | Path, *, project: str | None = None, scope: str | None = None
    ) -> Exchange[ExportResult]:
        """Write everything, or one project or scope, as JSON lines into a local file; `mindhold import` reads it."""
        target = self.wire.target("export_project" if project else "export", {"scope": project or scope})
        headers = self.wire.headers(Accept=LINES)
        with Download(Path(path)) as file:
            yield from self.wire.exchange(ClientRequest("GET", target, headers, sink=file), again=False)
            return file.finish()


MessageType = Literal["user", "assistant", "system"]
Trigger = Literal["session_end", "important_decision", "task_complete", "manual"]
LOOKS_SECONDS = 0.5  # between two checks of a job
ENDED = frozenset({"done", "failed", "cancelled"})


class ProjectMethods(ClientMethods):
    """Methods about projects, messages and summaries. A project's name is its `id`. None means not given."""

    @Method
    def create_project(
        self,
        name: str,
        *,
        storage_mode: str | None = None,
        path: str | None = None,
        description: str | None = None,
        log_conversations: bool | None = None,
    ) -> Exchange[ProjectView]:
        """Create a project; only a migration changes its storage mode. Without a choice, hooks feed its log."""
        return self.wire.run("create_project", _fields(locals()))

    @Method
    def projects(self) -> Exchange[ListProjectsResult]:
        """List every project and its store."""
        return self.wire.run("list_projects", {})

    @Method
    def project(self, name: str) -> Exchange[ProjectView]:
        """Return one project. Raises ScopeNotFound."""
        return self.wire.run("show_project", _fields(locals()))

    @Method
    def change_project(
        self,
        /,
        name: str,
        *,
        description: str | None = None,
        active: bool | None = None,
        path: str | None = None,
        log_conversations: bool | None = None,
        **more: Any,
    ) -> Exchange[ProjectView]:
        """Change the given settings of a project."""
        return self.wire.run("change_project", _fields(locals()))

    @Method
    def delete_project(self, name: str, *, confirm: str) -> Exchange[DeleteProjectResult]:
        """Export a project on the server, then remove it with its content; `confirm` repeats its name."""
        return self.wire.run("delete_project", _fields(locals()))

    @Method
    def save_message(
        self,
        project: str,
        message_type: MessageType,
        content: str,
        *,
        task_id: int | None = None,
        session_id: str | None = None,
        timestamp: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Exchange[SaveMessageResult]:
        """Save one message; `metadata` may hold the `session_id` and the `timestamp` too."""
        return self.wire.run("save_message", _fields(locals(), session_id="conversation"))

    @Method
    def recent_messages(
        self,
        project: str,
        *,
        limit: int | None = None,
        session_id: str | None = None,
        task_id: int | None = None,
    ) -> Exchange[RecentMessagesResult]:
        """Return the last messages, oldest first: by default 50, at most 200."""
        return self.wire.run("recent_messages", _fields(locals(), session_id="conversation"))

    @PagedMethod
    def messages(
        self,
        project: str,
        *,
        session_id: str | None = None,
        task_id: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        page: int = PAGE,
    ) -> PageReader[MessageView]:
        """Iterate over all messages, fetched `page` by page; writes meanwhile do no harm."""
        fields = _fields(locals(), session_id="conversation", page="limit")

        def read_page(cursor: str | None) -> Exchange[ResultPage[MessageView]]:
            result = yield from self.wire.run("list_messages", {**fields, "cursor": cursor})
            return ResultPage(result.messages, result.next)

        return read_page

    @Method
    def search(
        self, project: str, query: str, *, limit: int | None = None, session_id: str | None = None
    ) -> Exchange[SearchMessagesResult]:
        """Find messages for a question: by default 20, at most 100."""
        return self.wire.run("search_messages", _fields(locals(), session_id="conversation"))

    @Method
    def delete_messages(
        self,
        project: str,
        *,
        message_id: str | None = None,
        session_id: str | None = None,
        task_id: int | None = None,
        before: datetime | str | None = None,
    ) -> Exchange[DeleteMessagesResult]:
        """Erase the messages that match all given filters, for good."""
        return self.wire.run("delete_messages", _fields(locals(), session_id="conversation"))

    @Method
    def import_messages(
        self,
        project: str,
        messages: Iterable[Message] | AsyncIterable[Message],
        *,
        embed: bool | None = None,
        key: str | None = None,
    ) -> Exchange[SaveMessagesResult]:
        """Save any number of messages, sent as a stream: each with `message_type`, `content`, and optionally
        `task_id`, `session_id`, `timestamp` and `metadata`.

        An interrupted import can be repeated from the beginning with the same `key`: saved messages are skipped.
        Without a `key` one is made, and the error names it. An import of a list is retried by itself.
        """
        from mindhold.conversations.message_import import SaveMessagesResult

        import_key = key or secrets.token_urlsafe(18)
        target = self.wire.target("import_messages", {"project": project, "messages": [], "embed": embed})
        # The server sends counts as signs of life; the last line is the answer.
        headers = self.wire.headers(**{"Accept": LINES, "Content-Type": LINES, "Idempotency-Key": import_key})
        request = ClientRequest("POST", target, headers, lines=messages)
        try:
            # An iterator can't be sent a second time.
            reply = yield from self.wire.exchange(request, again=isinstance(messages, Sequence))
            last = replace(reply, content=reply.content.rstrip().rpartition(b"\n")[2])
            return self.wire.parse_answer(SaveMessagesResult, last, ended=True)
        except (ServerError, StoreError) as error:
            hint = f"Made again with key={import_key!r}, the import passes over what is there."
            error.advice = f"{error.advice} {hint}".strip()
            raise

    @Method
    def summary(self, project: str) -> Exchange[ProjectSummaryResult]:
        """Return the project's summary."""
        return self.wire.run("project_summary", _fields(locals()))

    @Method
    def update_summary(
        self,
        project: str,
        trigger: Trigger,
        new_insights: str,
        *,
        last_summarized_message_id: str | None = None,
        expected: str | None = None,
    ) -> Exchange[UpdateSummaryResult]:
        """Merge new insights into the summary. Raises Changed if its `etag` is no longer `expected`."""
        return self.wire.run("update_summary", _fields(locals()))

    @Method
    def replace_summary(
        self,
        project: str,
        summary: str,
        *,
        key_decisions: Iterable[str] = (),
        tech_stack: Iterable[str] = (),
        patterns: Iterable[str] = (),
        gotchas: Iterable[str] = (),
        expected: str | None = None,
    ) -> Exchange[ReplaceSummaryResult]:
        """Replace the summary; the earlier one stays among the versions."""
        return self.wire.run("replace_summary", _fields(locals()))

    @Method
    def summary_versions(
        self, project: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Exchange[SummaryVersionsResult]:
        """List the versions of the summary, newest first."""
        return self.wire.run("summary_versions", _fields(locals()))

    @Method
    def diff_summary(
        self, project: str, older: int | None = None, newer: int | None = None
    ) -> Exchange[SummaryDiffResult]:
        """Compare two versions, by default the last two."""
        return self.wire.run("summary_diff", _fields(locals(), older="from_version", newer="to_version"))

    @Method
    def restore_summary(
        self, project: str, version: int, *, expected: str | None = None
    ) -> Exchange[RestoreSummaryResult]:
        """Make a new version with the text of an earlier one."""
        return self.wire.run("restore_summary", _fields(locals()))

    @Method
    def stats(self, project: str) -> Exchange[ProjectStatsResult]:
        """Count the messages, and those with vectors."""
        return self.wire.run("project_stats", _fields(locals()))

    @Method
    def reindex(self, project: str, *, force: bool | None = None) -> Exchange[ReindexProjectResult]:
        """Start making missing vectors of messages; with `force` all of them. Returns at once."""
        return self.wire.run("reindex_project", _fields(locals()))

    @Method
    def reindex_status(self, project: str, job_id: str) -> Exchange[ReindexStatusResult]:
        """Return the progress of a reindexing."""
        return self.wire.run("reindex_status", _fields(locals()))

    @Method
    def await_reindex(self, project: str, job_id: str) -> Exchange[ReindexStatusResult]:
        """Wait until a reindexing is done, has failed, or was cancelled."""
        while True:
            result: ReindexStatusResult = yield from self.wire.run(
                "reindex_status", {"project": project, "job_id": job_id}
            )
            if result.status in ENDED:
                return result
            yield Pause(LOOKS_SECONDS)

    @Method
    def cancel_reindex(self, project: str, job_id: str) -> Exchange[ReindexStatusResult]:
        """Cancel a reindexing; finished vectors stay."""
        return self.wire.run("cancel_reindex", _fields(locals()))
