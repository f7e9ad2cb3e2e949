"""The methods of both clients: memories, projects, messages, summaries and exports."""

from __future__ import annotations

import json
import os
import secrets
from collections import Counter
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from mindhold.client.wire import (
    LINES,
    ClientMethods,
    ClientRequest,
    Message,
    Method,
    PagedMethod,
    Pause,
    ResultPage,
    Talk,
    Turn,
)
from mindhold.model.errors import ServerError, StoreError, StoreFull, StoreReadOnly
from mindhold.model.memory import PRIVACY_NOTICE

if TYPE_CHECKING:
    from mindhold.conversations.message_import import SaveMessagesResult
    from mindhold.conversations.message_log import (
        DeleteMessagesResult,
        MessageView,
        RecentMessagesResult,
        SaveMessageResult,
        SearchMessagesResult,
    )
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


_FULL = 28  # ENOSPC, on every system


class Download:
    """A file that is whole or not there; counts what goes into it."""

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
            raise self._failed(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._partial.unlink(missing_ok=True)

    def write(self, piece: bytes, /) -> None:
        """The next piece, wherever it was cut. Raises StoreFull, StoreReadOnly."""
        try:
            self._file.write(piece)
        except OSError as error:
            raise self._failed(error) from error
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            self._counts[_kind(line)] += 1

    def finish(self) -> ExportResult:
        """Put it in its place. Raises ServerError for what is no export, StoreFull, StoreReadOnly."""
        from mindhold.memories.transfer import ExportResult

        if self._rest or self._counts["head"] != 1:
            raise ServerError("What the server sent is no whole export.", advice="Try again.")
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._partial.replace(self._path)
        except OSError as error:
            raise self._failed(error) from error
        found = self._counts
        return ExportResult(
            path=str(self._path),
            memories=found["memory"],
            links=found["link"],
            versions=found["version"],
            scopes=found["scope"],
            contradictions=found["contradiction"],
            notice=PRIVACY_NOTICE,
        )

    def _failed(self, error: OSError) -> StoreFull | StoreReadOnly:
        kind = StoreFull if error.errno == _FULL else StoreReadOnly
        return kind(f"The export to {self._path} failed: {error.strerror}.", advice="Choose another place.")


def _kind(line: bytes) -> str:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    return "head" if document.get("mindhold") == "export" else str(document.get("type", ""))


PAGE = 200
Words = Iterable[str]


class MemoryMethods(ClientMethods):
    """Memories, scopes, and what is known of everything.

    Each takes the fields of its operation; the rarer ones go by as `more`. What is None is as if it weren't given.
    """

    @Method
    def run(self, name: str, /, **fields: Any) -> Talk[Any]:
        """Any operation that the server has, by its name in /openapi.json. Answers the operation's own output."""
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
    ) -> Talk[RememberResult]:
        """Store one memory. The same `key` again within a day stores nothing new and answers as before."""
        return self.wire.run(
            "remember",
            {
                "content": content,
                "kind": kind,
                "scope": scope,
                "topic": topic,
                "tags": _listed(tags),
                "importance": importance,
                "occurred": occurred,
                "metadata": metadata,
                "idempotency_key": key,
                **more,
            },
        )

    @Method
    def remember_many(
        self, /, items: Iterable[Mapping[str, Any]], *, scope: str | None = None, **more: Any
    ) -> Talk[RememberManyResult]:
        """Store several, each with the fields of `remember`; each has its own answer."""
        return self.wire.run("remember_many", {"items": list(items), "scope": scope, **more})

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
    ) -> Talk[RecallResult]:
        """The right few for a question, best first; `when` is a time in words, such as "last week"."""
        return self.wire.run(
            "recall",
            {
                "query": query,
                "scope": scope,
                "everywhere": everywhere,
                "tags": _listed(tags),
                "kinds": _listed(kinds),
                "topic": topic,
                "when": when,
                "since": since,
                "until": until,
                "limit": limit,
                "token_budget": token_budget,
                **more,
            },
        )

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
    ) -> Turn[MemoryView]:
        """Every memory that the filters let through, newest first unless asked otherwise; fetched `page` by page."""
        given = {
            "scope": scope,
            "tags": _listed(tags),
            "kinds": _listed(kinds),
            "topic": topic,
            "when": when,
            "order": order,
            "limit": page,
            **more,
        }

        def turn(cursor: str | None) -> Talk[ResultPage[MemoryView]]:
            found = yield from self.wire.run("list", {**given, "cursor": cursor})
            return ResultPage(found.memories, found.next)

        return turn

    @Method
    def show(self, id: str) -> Talk[ShowResult]:
        """One memory with its links and earlier versions; the beginning of its id is enough."""
        return self.wire.run("show", {"id": id})

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
    ) -> Talk[AmendResult]:
        """Change what is given and keep the rest; what it said before stays among its versions."""
        given = {"id": id, "content": content, "tags": _listed(tags), "importance": importance, **more}
        return self.wire.run("amend", given)

    @Method
    def forget(self, /, *ids: str, hard: bool | None = None, **more: Any) -> Talk[ForgetResult]:
        """Hide memories at once, everywhere; or, `hard`, remove them for good."""
        return self.wire.run("forget", {"ids": list(ids), "hard": hard, **more})

    @Method
    def unforget(self, *ids: str) -> Talk[UnforgetResult]:
        """Bring back what was forgotten, but not for good."""
        return self.wire.run("unforget", {"ids": list(ids)})

    @Method
    def link(self, origin: str, target: str, *, relation: str | None = None) -> Talk[LinkResult]:
        """Say how two memories relate."""
        return self.wire.run("link", {"origin": origin, "target": target, "relation": relation})

    @Method
    def scopes(self) -> Talk[ListScopesResult]:
        """Every scope, with its counts."""
        return self.wire.run("list_scopes", {})

    @Method
    def create_scope(
        self, /, name: str, *, description: str | None = None, parent: str | None = None, **more: Any
    ) -> Talk[ScopeView]:
        """Make a scope."""
        return self.wire.run(
            "create_scope", {"name": name, "description": description, "parent": parent, **more}
        )

    @Method
    def tags(self, *, scope: str | None = None) -> Talk[TagsResult]:
        """Tags, and how many memories have each."""
        return self.wire.run("tags", {"scope": scope})

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
    ) -> Talk[TimelineResult]:
        """Memories by the day that they are about."""
        given = {"when": when, "since": since, "until": until, "scope": scope, "limit": limit, **more}
        return self.wire.run("timeline", given)

    @Method
    def context(
        self, /, *, token_budget: int | None = None, scope: str | None = None, **more: Any
    ) -> Talk[ContextResult]:
        """What an agent has in mind when a conversation begins, within a budget."""
        return self.wire.run("context", {"token_budget": token_budget, "scope": scope, **more})

    @Method
    def ask(self, question: str, *, scope: str | None = None, limit: int | None = None) -> Talk[AskResult]:
        """An answer from memory, with what it rests on."""
        return self.wire.run("ask", {"question": question, "scope": scope, "limit": limit})

    @Method
    def status(self) -> Talk[StatusResult]:
        """How the server is."""
        return self.wire.run("status", {})

    @Method
    def memory_stats(self) -> Talk[StatsResult]:
        """How much is remembered: by kind, tier, scope and status."""
        return self.wire.run("stats", {})

    @Method
    def export(
        self, path: str | Path, *, project: str | None = None, scope: str | None = None
    ) -> Talk[ExportResult]:
        """Everything, or one project or scope, as JSON lines into a file of yours; `mindhold import` reads it."""
        target = self.wire.target("export_project" if project else "export", {"scope": project or scope})
        ask = ClientRequest("GET", target, self.wire.headers(Accept="application/x-ndjson"))
        return self._downloaded(ask, Path(path))

    def _downloaded(self, ask: ClientRequest, path: Path) -> Talk[ExportResult]:
        with Download(path) as file:
            whole = ClientRequest(ask.method, ask.target, ask.headers, sink=file)
            yield from self.wire.exchange(whole, again=False)
            return file.finish()


def _listed(words: Words | None) -> list[str] | None:
    """One word is a list of one, not of its letters."""
    if words is None:
        return None
    return [words] if isinstance(words, str) else list(words)


MessageType = Literal["user", "assistant", "system"]
Trigger = Literal["session_end", "important_decision", "task_complete", "manual"]
LOOKS_SECONDS = 0.5  # between two looks at a job
ENDED = frozenset({"done", "failed", "cancelled"})


class ProjectMethods(ClientMethods):
    """Projects are named by their `id`, which is their name. What is None is as if it weren't given."""

    @Method
    def create_project(
        self,
        name: str,
        *,
        storage_mode: str | None = None,
        path: str | None = None,
        description: str | None = None,
    ) -> Talk[ProjectView]:
        """Make a project; its storage mode stays, unless it is migrated."""
        given = {"name": name, "storage_mode": storage_mode, "path": path, "description": description}
        return self.wire.run("create_project", given)

    @Method
    def projects(self) -> Talk[ListProjectsResult]:
        """Every project, and where it lives."""
        return self.wire.run("list_projects", {})

    @Method
    def project(self, name: str) -> Talk[ProjectView]:
        """One project. Raises ScopeNotFound."""
        return self.wire.run("show_project", {"name": name})

    @Method
    def change_project(
        self,
        /,
        name: str,
        *,
        description: str | None = None,
        active: bool | None = None,
        path: str | None = None,
        **more: Any,
    ) -> Talk[ProjectView]:
        """Change the settings that are given."""
        given = {"name": name, "description": description, "active": active, "path": path, **more}
        return self.wire.run("change_project", given)

    @Method
    def delete_project(self, name: str, *, confirm: str) -> Talk[DeleteProjectResult]:
        """Export a project on the server, then remove it and all that is in it; `confirm` is its name once more."""
        return self.wire.run("delete_project", {"name": name, "confirm": confirm})

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
    ) -> Talk[SaveMessageResult]:
        """Keep one message; `metadata` may have the `session_id` and the `timestamp` too."""
        given = {"message_type": message_type, "content": content, "task_id": task_id, "metadata": metadata}
        told = {"conversation": session_id, "timestamp": timestamp}
        return self.wire.run("save_message", {"project": project, **given, **told})

    @Method
    def recent_messages(
        self,
        project: str,
        *,
        limit: int | None = None,
        session_id: str | None = None,
        task_id: int | None = None,
    ) -> Talk[RecentMessagesResult]:
        """The last messages, oldest first: 50 unless asked otherwise, 200 at most."""
        given = {"limit": limit, "conversation": session_id, "task_id": task_id}
        return self.wire.run("recent_messages", {"project": project, **given})

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
    ) -> Turn[MessageView]:
        """Every message, fetched `page` by page; writes meanwhile spoil nothing."""
        given = {
            "project": project,
            "conversation": session_id,
            "task_id": task_id,
            "since": since,
            "until": until,
            "limit": page,
        }

        def turn(cursor: str | None) -> Talk[ResultPage[MessageView]]:
            found = yield from self.wire.run("list_messages", {**given, "cursor": cursor})
            return ResultPage(found.messages, found.next)

        return turn

    @Method
    def search(
        self, project: str, query: str, *, limit: int | None = None, session_id: str | None = None
    ) -> Talk[SearchMessagesResult]:
        """The messages nearest to a question: 20 unless asked otherwise, 100 at most."""
        given = {"query": query, "limit": limit, "conversation": session_id}
        return self.wire.run("search_messages", {"project": project, **given})

    @Method
    def delete_messages(
        self,
        project: str,
        *,
        message_id: str | None = None,
        session_id: str | None = None,
        task_id: int | None = None,
        before: datetime | str | None = None,
    ) -> Talk[DeleteMessagesResult]:
        """Erase the messages of which all that is given holds, for good."""
        given = {"message_id": message_id, "conversation": session_id, "task_id": task_id, "before": before}
        return self.wire.run("delete_messages", {"project": project, **given})

    @Method
    def import_messages(
        self,
        project: str,
        messages: Iterable[Message] | AsyncIterable[Message],
        *,
        embed: bool | None = None,
        key: str | None = None,
    ) -> Talk[SaveMessagesResult]:
        """Keep as many messages as there are, sent as they come: each with `message_type`, `content`, and as wanted
        `task_id`, `session_id`, `timestamp` and `metadata`.

        An import that broke off can be made again from the beginning with the same `key`: what is there is passed over. One
        that has none gets one, which its error names. It is tried again by itself where the messages are in a list.
        """
        return self._imported(project, messages, embed=embed, key=key)

    @Method
    def summary(self, project: str) -> Talk[ProjectSummaryResult]:
        """What is known of the project in short."""
        return self.wire.run("project_summary", {"project": project})

    @Method
    def update_summary(
        self,
        project: str,
        trigger: Trigger,
        new_insights: str,
        *,
        last_summarized_message_id: str | None = None,
        expected: str | None = None,
    ) -> Talk[UpdateSummaryResult]:
        """Work new insights into the summary. `expected` is the `etag` that was read: else raises Changed."""
        given = {
            "trigger": trigger,
            "new_insights": new_insights,
            "last_summarized_message_id": last_summarized_message_id,
            "expected": expected,
        }
        return self.wire.run("update_summary", {"project": project, **given})

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
    ) -> Talk[ReplaceSummaryResult]:
        """Put another summary in its place; the one before stays among the versions."""
        lists = {
            "key_decisions": key_decisions,
            "tech_stack": tech_stack,
            "patterns": patterns,
            "gotchas": gotchas,
        }
        given = {
            "summary": summary,
            "expected": expected,
            **{name: list(some) for name, some in lists.items()},
        }
        return self.wire.run("replace_summary", {"project": project, **given})

    @Method
    def summary_versions(
        self, project: str, *, limit: int | None = None, cursor: str | None = None
    ) -> Talk[SummaryVersionsResult]:
        """The versions of the summary, newest first."""
        return self.wire.run("summary_versions", {"project": project, "limit": limit, "cursor": cursor})

    @Method
    def diff_summary(
        self, project: str, older: int | None = None, newer: int | None = None
    ) -> Talk[SummaryDiffResult]:
        """What changed between two versions; the last two, unless they are named."""
        return self.wire.run("summary_diff", {"project": project, "from_version": older, "to_version": newer})

    @Method
    def restore_summary(
        self, project: str, version: int, *, expected: str | None = None
    ) -> Talk[RestoreSummaryResult]:
        """Make a new version that says what that one said."""
        return self.wire.run(
            "restore_summary", {"project": project, "version": version, "expected": expected}
        )

    @Method
    def stats(self, project: str) -> Talk[ProjectStatsResult]:
        """How many messages there are, and how many can be found by meaning."""
        return self.wire.run("project_stats", {"project": project})

    @Method
    def reindex(self, project: str, *, force: bool | None = None) -> Talk[ReindexProjectResult]:
        """Have messages that can't be found by meaning indexed; with `force` all of them. Returns at once."""
        return self.wire.run("reindex_project", {"project": project, "force": force})

    @Method
    def reindex_status(self, project: str, job_id: str) -> Talk[ReindexStatusResult]:
        """How far it is."""
        return self.wire.run("reindex_status", {"project": project, "job_id": job_id})

    @Method
    def await_reindex(self, project: str, job_id: str) -> Talk[ReindexStatusResult]:
        """Until it is done, has failed, or was cancelled."""
        while True:
            found: ReindexStatusResult = yield from self.wire.run(
                "reindex_status", {"project": project, "job_id": job_id}
            )
            if found.status in ENDED:
                return found
            yield Pause(LOOKS_SECONDS)

    @Method
    def cancel_reindex(self, project: str, job_id: str) -> Talk[ReindexStatusResult]:
        """Stop it; what was indexed stays indexed."""
        return self.wire.run("cancel_reindex", {"project": project, "job_id": job_id})

    def _imported(
        self,
        project: str,
        messages: Iterable[Message] | AsyncIterable[Message],
        *,
        embed: bool | None,
        key: str | None,
    ) -> Talk[SaveMessagesResult]:
        from mindhold.conversations.message_import import SaveMessagesResult

        once = key or secrets.token_urlsafe(18)
        target = self.wire.target("import_messages", {"project": project, "messages": [], "embed": embed})
        # Its count from time to time says that the server is at it; the last line is the answer.
        headers = self.wire.headers(**{"Accept": LINES, "Content-Type": LINES, "Idempotency-Key": once})
        ask = ClientRequest("POST", target, headers, lines=messages)
        try:
            # What comes from an iterator is gone when it was sent.
            reply = yield from self.wire.exchange(ask, again=isinstance(messages, Sequence))
            last = replace(reply, content=reply.content.rstrip().rpartition(b"\n")[2])
            return self.wire.understood(SaveMessagesResult, last, ended=True)
        except (ServerError, StoreError) as error:
            told = f"Made again with key={once!r}, the import passes over what is there."
            error.advice = f"{error.advice} {told}".strip()
            raise
