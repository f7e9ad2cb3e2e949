"""THE catalogue by name. An operation's module is imported when it is first asked for: a start is quick, or it is nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

from mindhold.operations.catalogue import Operation

MODULES: Mapping[str, tuple[str, ...]] = {
    "writing": ("remember", "remember_many", "amend", "link", "unlink"),
    "filing": ("store",),
    "tracing": ("versions", "reconstruct"),
    "forgetting": ("forget", "unforget"),
    "reading": ("recall", "show", "list", "tags"),
    "timing": ("timeline", "interpret_time"),
    "keeping": (
        "list_scopes",
        "show_scope",
        "create_scope",
        "change_scope",
        "rename_scope",
        "delete_scope",
        "export",
        "import",
    ),
    "knowing": ("context", "reflect", "ask", "explore"),
    "profile": ("show_profile", "change_profile", "profile_history"),
    "judging": ("feedback", "feedback_report"),
    "conversing": ("end_conversation", "go_on", "end_session"),
    "messages": (
        "save_message",
        "recent_messages",
        "list_messages",
        "show_message",
        "search_messages",
        "delete_messages",
    ),
    "recaps": ("recap", "list_recaps", "recap_messages", "list_conversations"),
    "summaries": ("project_summary", "update_summary", "replace_summary"),
    "summary_history": ("summary_versions", "summary_version", "summary_diff", "restore_summary"),
    "projects": ("project_context", "project_stats"),
    "message_import": ("save_messages",),
    "housing": (
        "create_project",
        "open_folder",
        "list_projects",
        "show_project",
        "change_project",
        "delete_project",
        "migrate_project",
    ),
    "reindexing": ("reindex_project", "reindex_status", "cancel_reindex"),
    "following": ("recent_changes",),
    "history": ("search_history", "history_timeline", "history_projects"),
    "safekeeping": ("stats", "backup", "list_backups", "restore"),
    "auditing": ("list_audit", "show_audit", "undo_audit"),
    "retiring": ("retire_scope", "revive_scope"),
    "backups": ("verify_backups", "drop_backup"),
    "consolidating": ("consolidate", "consolidation_reports"),
    "maintaining": ("maintain",),
    "condensing": ("condense", "write_documents"),
    "contradicting": (
        "list_contradictions",
        "undo_contradiction",
        "confirm_contradiction",
        "dismiss_contradiction",
    ),
    "access": (
        "create_key",
        "list_keys",
        "revoke_key",
        "check_key",
        "save_client",
        "find_client",
        "open_consent",
        "find_consent",
        "grant_code",
        "find_code",
        "redeem_code",
        "find_refresh",
        "refresh_grant",
        "check_token",
        "list_grants",
        "revoke_grant",
        "keep_visit",
        "find_visit",
        "end_visit",
    ),
    "upkeep": (
        "status",
        "doctor",
        "list_jobs",
        "show_job",
        "run_jobs",
        "retry_job",
        "cancel_job",
        "embed_missing",
    ),
    "indexing": ("index_history",),
    "history_keeping": (
        "show_conversation",
        "origin",
        "forget_conversation",
        "archive_history",
        "restore_conversation",
        "summarize_conversation",
        "history_status",
    ),
    "embedding": ("embed_history",),
    "capturing": ("capture",),
    "capture_report": ("capture_status",),
    "handing": ("make_leaflet", "bring_to_mind"),
    "modelling": ("list_models", "pull_model", "remove_model"),
    "adopting": ("adopt_model",),
    "spending": ("spend",),
}


def names() -> list[str]:
    """Every operation's."""
    return [name for members in MODULES.values() for name in members]


@cache
def operation(name: str) -> Operation[Any, Any]:
    """The operation of that name. Raises KeyError."""
    for module, members in MODULES.items():
        if name in members:
            found: Operation[Any, Any] = getattr(import_module(f"mindhold.operations.{module}"), name.upper())
            return found
    raise KeyError(name)
