"""What can be asked of projects, their messages and their summaries, for both clients."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from mindhold.client.methods import Method, Page, Pages, Talking, Turn
from mindhold.client.wire import LINES, Ask, Message, Pause, Talk
from mindhold.model.errors import ServerError, StoreError

if TYPE_CHECKING:
    from mindhold.operations.housing import DeleteProjectResult, ListProjectsResult, ProjectView
    from mindhold.operations.message_import import SaveMessagesResult
    from mindhold.operations.messages import (
        DeleteMessagesResult,
        RecentMessagesResult,
        SaveMessageResult,
        SearchMessagesResult,
    )
    from mindhold.operations.project_views import MessageView
    from mindhold.operations.projects import ProjectStatsResult
    from mindhold.operations.reindexing import ReindexProjectResult, ReindexStatusResult
    from mindhold.operations.summaries import (
        ProjectSummaryResult,
        ReplaceSummaryResult,
        UpdateSummaryResult,
    )
    from mindhold.operations.summary_history import (
        RestoreSummaryResult,
        SummaryDiffResult,
        SummaryVersionsResult,
    )

MessageType = Literal["user", "assistant", "system"]
Trigger = Literal["session_end", "important_decision", "task_complete", "manual"]
PAGE = 200
LOOKS_SECONDS = 0.5  # between two looks at a job
ENDED = frozenset({"done", "failed", "cancelled"})


class ProjectMethods(Talking):
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

    @Pages
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

        def turn(cursor: str | None) -> Talk[Page[MessageView]]:
            found = yield from self.wire.run("list_messages", {**given, "cursor": cursor})
            return Page(found.messages, found.next)

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
        from mindhold.operations.message_import import SaveMessagesResult

        once = key or secrets.token_urlsafe(18)
        target = self.wire.target("import_messages", {"project": project, "messages": [], "embed": embed})
        # Its count from time to time says that the server is at it; the last line is the answer.
        headers = self.wire.headers(**{"Accept": LINES, "Content-Type": LINES, "Idempotency-Key": once})
        ask = Ask("POST", target, headers, lines=messages)
        try:
            # What comes from an iterator is gone when it was sent.
            reply = yield from self.wire.exchange(ask, again=isinstance(messages, Sequence))
            last = replace(reply, content=reply.content.rstrip().rpartition(b"\n")[2])
            return self.wire.understood(SaveMessagesResult, last, ended=True)
        except (ServerError, StoreError) as error:
            told = f"Made again with key={once!r}, the import passes over what is there."
            error.advice = f"{error.advice} {told}".strip()
            raise
