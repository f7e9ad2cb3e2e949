"""What the five contracts promise, tool by tool, written down as data; dots lead inside objects and lists."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

KINDS = ("fact", "decision", "error", "preference", "procedure", "relation")
RELATIONS = ("related", "caused_by", "resolved_by", "part_of", "contradicts")
EVERY_RELATION = (*RELATIONS, "superseded_by")


@dataclass(frozen=True)
class Contract:
    """Arguments with their defaults (None: there is none), the answer's fields, and what Mindhold adds of its own."""

    required: tuple[str, ...] = ()
    optional: dict[str, Any] = field(default_factory=dict)
    enums: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gives: tuple[str, ...] = ()
    extra_arguments: tuple[str, ...] = ()
    extra_answers: tuple[str, ...] = ()


def _each(above: str, names: str) -> tuple[str, ...]:
    return (above, *(f"{above}.{name}" for name in names.split()))


_CAPTURED = "id type content tags created updated confidence accessCount supersedes mergedFrom"
_FOUND = _each("results", "text source timestamp scope tags confidence memory_id")
_DIGEST = _each("digest", "about count kinds topics tags summary")
_DELETE = Contract(
    required=("target",),
    optional={
        "target.memory_id": None,
        "target.scope": None,
        "target.tag": None,
        "target.query": None,
        "forget_mode": "soft",
    },
    enums={"forget_mode": ("soft", "hard")},
    gives=("status", "deleted_count", "scope", "note"),
    extra_arguments=("confirm", "force"),
    extra_answers=("notice", *_each("candidates", "text confidence memory_id"), "backup_file"),
)

CAPTURE = {
    "memory_search": Contract(
        required=("query",),
        gives=_each("results", _CAPTURED),
        extra_arguments=("project", "limit"),
        extra_answers=("notice", "count", "nearest", "note", "results.score"),
    ),
    "memory_ask": Contract(
        required=("question",),
        gives=("answer",),
        extra_arguments=("project",),
        extra_answers=(
            *("notice", "found", "nearest", "method", "model"),
            *_each("sources", "id type content tags score"),
        ),
    ),
    "memory_related": Contract(
        required=("tags",),
        gives=_each("results", _CAPTURED),
        extra_arguments=("project", "limit"),
        extra_answers=("notice", "total", "results.score"),
    ),
}

OF_REVIEW = {  # Mindhold's own
    "memory_review": Contract(
        gives=(*_each("captures", _CAPTURED), "waiting"),
        extra_arguments=(*_each("edit", "id content"), "keep", "drop", "never", "undo", "project", "limit"),
        extra_answers=("notice", "captures.score", "kept", "edited", "dropped", "rejected", "restored"),
    ),
}

HISTORY = {
    "memory_recall": Contract(
        required=("query",),
        optional={"project": None},
        gives=(
            *_each("results", "session_id project summary timestamp relevance excerpt"),
            "total_sessions_searched",
            "suggestion",
        ),
        extra_answers=(
            "notice",
            *_each("results", "file line")[1:],
            "nearest",
            "searched_with",
            "error",
            "message",
            "resolution",
            "partial_results",
        ),
    ),
    "memory_timeline": Contract(
        optional={"days": 7, "project": None},
        gives=(
            *_each("sessions", "session_id project summary timestamp model"),
            "total_sessions",
            "date_range",
        ),
        extra_answers=("notice", "sessions.title", "sessions.source", "sessions.agent", "suggestion"),
    ),
    "memory_projects": Contract(
        gives=(
            *_each("projects", "path session_count last_used total_size_mb"),
            "total_projects",
            "total_sessions",
            "total_size_gb",
        ),
        extra_answers=("suggestion",),
    ),
}

ASSISTANT = {
    "store_memory": Contract(
        required=("content",),
        optional={"metadata": None, "metadata.scope": None, "metadata.tags": None, "metadata.source": None},
        enums={"speaker": ("user", "assistant", "system")},
        gives=("status", "memory_id", "scope"),
        extra_arguments=("scope", "tags", "source", "speaker", "conversation_id"),
        extra_answers=("created", "quarantined", "scope_reason", "stored_as", "tags", "note"),
    ),
    "retrieve_memory": Contract(
        required=("query",),
        optional={
            "filter": None,
            "filter.scope": None,
            "filter.tags": None,
            "filter.time_range": None,
            "filter.time_range.from": None,
            "filter.time_range.to": None,
            "top_k": 5,
        },
        gives=_FOUND,
        extra_arguments=("include_archived",),
        extra_answers=("notice", "nearest", "note", "results.archived"),
    ),
    "search_by_tag": Contract(
        required=("tag",),
        optional={"query": None},
        gives=_FOUND,
        extra_arguments=("top_k",),
        extra_answers=("notice", "nearest", "note", "results.archived"),
    ),
    "search_by_scope": Contract(
        required=("scope",),
        optional={"query": None},
        gives=_FOUND,
        extra_arguments=("top_k",),
        extra_answers=("notice", "nearest", "note", "results.archived", *_DIGEST),
    ),
    "recall_memory_by_time": Contract(
        optional={"time_query": None, "range": None, "range.from": None, "range.to": None, "scope": None},
        gives=(
            *_each("results", "text timestamp scope source memory_id"),
            *_each("time_frame", "from to"),
        ),
        extra_arguments=("include_archived",),
        extra_answers=(
            *("notice", "results.tags", "results.confidence", "results.archived", "total", "note"),
            *_DIGEST,
        ),
    ),
    "delete_memory": _DELETE,
    "forget_memory": _DELETE,
    "get_memory_stats": Contract(
        gives=_each("stats", "total_memories conversation_count scopes last_backup db_size_mb"),
        extra_answers=("stats.sources",),
    ),
    "backup_memory": Contract(
        gives=("status", "backup_file"), extra_arguments=("name",), extra_answers=("memories", "sha256")
    ),
    "restore_memory": Contract(
        gives=("status",),
        extra_arguments=("backup_file",),
        extra_answers=("backup_file", "restored_count", "skipped_count", "safety_backup"),
    ),
    "optimize_memory": Contract(gives=("status", "operations")),
    "create_memory_scope": Contract(
        required=("name",),
        optional={"description": ""},
        gives=("status", "scope", "description"),
        extra_arguments=("parent", "related_keywords"),
        extra_answers=("parent", "related_keywords"),
    ),
    "list_memory_scopes": Contract(
        gives=_each("scopes", "name description"),
        extra_answers=(
            *("notice", "scopes.memories", "scopes.active", "scopes.parent"),
            *("scopes.related_keywords", "scopes.created_at"),
        ),
    ),
    "export_memory": Contract(
        enums={"format": ("json", "markdown", "csv", "jsonl")},
        gives=("status",),
        extra_arguments=("scope", "format"),
        extra_answers=("export_file", "memories", "note"),
    ),
}

_RAG = "id content message_type timestamp task_id similarity metadata"

PROJECT = {
    "get_project_memory_context": Contract(
        optional={"project_id": None},
        gives=(
            "summary",
            *_each("recent_messages", "id message_type content timestamp task_id session_id"),
            *_each("rag_results", _RAG),
        ),
        extra_arguments=("query", "token_budget"),
        extra_answers=(
            *("notice", "project", "summary_version", "storage_backend", "rag_results.kind"),
            *("tokens", "left_out"),
        ),
    ),
    "save_conversation_message": Contract(
        required=("message_type", "content"),
        optional={"task_id": None, "metadata": None, "project_id": None},
        enums={"message_type": ("user", "assistant", "system")},
        gives=("message_id", "status", "indexed", "embedding_model", "storage_backend"),
        extra_answers=("project", "quarantined", "redacted"),
    ),
    "update_project_summary": Contract(
        required=("trigger", "new_insights"),
        optional={"last_summarized_message_id": None, "project_id": None},
        enums={"trigger": ("session_end", "important_decision", "task_complete", "manual")},
        gives=("status", "summary_version", "summary_length", "last_updated", "storage_backend"),
        extra_answers=("notice",),
    ),
    "intelligent_update_project_summary": Contract(
        required=("summary",),
        optional={
            "key_decisions": None,
            "tech_stack": None,
            "patterns": None,
            "gotchas": None,
            "project_id": None,
        },
        gives=(
            "success",
            "summary",
            "key_decisions",
            "tech_stack",
            "patterns",
            "gotchas",
            "last_updated",
            "version",
            "storage_mode",
        ),
        extra_answers=("notice",),
    ),
    "search_project_memories": Contract(
        required=("query",),
        optional={"limit": 20, "session_id": None, "project_id": None},
        gives=(
            *_each("results", _RAG),
            "query_embedding_model",
            "search_method",
            "count",
            "storage_backend",
        ),
        extra_answers=("notice", "nearest", "note", "results.kind"),
    ),
}

_NODE = "id content type topic importance depth"
_REMEMBERED = (
    "outcome",
    "quarantined",
    "redacted",
    "parts",
    "linked",
    "links",
    "superseded",
    "repeated",
    "note",
)
_STATEMENT = (
    "content topic type keywords importance source linkedTo scope isAnchor project sessionId idempotencyKey"
)
_DECISION = "id content timestamp agentId superseded importance versions supersedes supersededBy contradicts contradictedBy linked"

FRAGMENTS = {
    "remember": Contract(
        required=("content", "topic", "type"),
        optional={
            "keywords": None,
            "importance": None,
            "source": None,
            "linkedTo": None,
            "scope": "permanent",
            "isAnchor": False,
            "agentId": None,
        },
        enums={"type": KINDS, "scope": ("permanent", "session")},
        gives=("success", "id", "created"),
        extra_arguments=("project", "sessionId", "idempotencyKey", "dryRun"),
        extra_answers=_REMEMBERED,
    ),
    "recall": Contract(
        optional={
            "keywords": None,
            "topic": None,
            "type": None,
            "text": None,
            "tokenBudget": 1000,
            "includeLinks": True,
            "linkRelationType": None,
            "threshold": None,
            "agentId": None,
        },
        enums={"type": KINDS, "linkRelationType": RELATIONS},
        gives=_each("fragments", "id content topic keywords type importance similarity"),
        extra_arguments=("when", "project"),
        extra_answers=(
            "notice",
            "count",
            "totalTokens",
            "method",
            "layers",
            "time",
            "hint",
            "nearest",
            "fragments.score",
            "fragments.contradicts",
            "fragments.contradictedBy",
            "fragments.supersededBy",
            "fragments.timestamp",
            "fragments.project",
            *_each("fragments.linked", "id relation content"),
        ),
    ),
    "forget": Contract(
        optional={"id": None, "topic": None, "force": False, "agentId": None},
        extra_arguments=("project",),
        extra_answers=("success", "deleted", "ids", "kept", "note"),
    ),
    "link": Contract(
        required=("fromId", "toId"),
        optional={"relationType": "related", "agentId": None},
        enums={"relationType": RELATIONS},
        extra_answers=("success", "created"),
    ),
    "amend": Contract(
        required=("id",),
        optional={
            "content": None,
            "topic": None,
            "keywords": None,
            "type": None,
            "importance": None,
            "isAnchor": None,
            "supersedes": False,
            "agentId": None,
        },
        enums={"type": KINDS},
        extra_answers=("success", "id", "previousId", "note"),
    ),
    "reflect": Contract(
        required=("summary",),
        optional={
            "sessionId": None,
            "decisions": None,
            "errors_resolved": None,
            "new_procedures": None,
            "open_questions": None,
            "agentId": None,
            "task_effectiveness": None,
            "task_effectiveness.overall_success": None,
            "task_effectiveness.tool_highlights": [],
            "task_effectiveness.tool_pain_points": [],
        },
        extra_arguments=("project",),
        extra_answers=("success", "stored", "duplicates", "quarantined", "ids", "counts"),
    ),
    "context": Contract(
        optional={
            "tokenBudget": 2000,
            "types": ["preference", "error", "procedure"],
            "sessionId": None,
            "agentId": None,
        },
        enums={"types": KINDS},
        gives=("coreMemory", "workingMemory", "injectionText"),
        extra_arguments=("project",),
        extra_answers=(
            "notice",
            "success",
            "totalTokens",
            "unreflectedSessions",
            "project",
            *_each("coreMemory", "id type topic importance")[1:],
            *_each("workingMemory", "id type topic importance")[1:],
        ),
    ),
    "tool_feedback": Contract(
        required=("tool_name", "relevant", "sufficient"),
        optional={"suggestion": None, "context": None, "session_id": None, "trigger_type": "voluntary"},
        enums={"trigger_type": ("sampled", "voluntary")},
        extra_arguments=("fragmentIds",),
        extra_answers=("success", "id", "rated"),
    ),
    "memory_stats": Contract(
        gives=("total", "byTier", "byType", "embeddedRatio"),
        extra_answers=(
            "success",
            "byStatus",
            "byProject",
            "embedded",
            "anchors",
            "unverified",
            "pendingContradictions",
            "links",
            "sessions",
            "toolFeedback",
            *_each("taskFeedback", "succeeded count"),
            "model",
            "method",
            *_each("modelsToday", "calls failed tokensIn tokensOut dailyTokens"),
            "lastConsolidated",
        ),
    ),
    "memory_consolidate": Contract(
        extra_arguments=("dryRun",),
        extra_answers=(
            "success",
            "dryRun",
            *_each("stages", "stage changed detail seconds more"),
            "operations",
            "seconds",
            *_each("archived", "id why"),
            *_each("erased", "id why"),
            *_each("stale", "id why"),
            "counts",
            "note",
        ),
    ),
    "graph_explore": Contract(
        required=("startId",),
        optional={"agentId": None},
        enums={"relations": EVERY_RELATION},
        extra_arguments=("depth", "relations"),
        gives=(*_each("nodes", _NODE), *_each("edges", "fromId toId relationType")),
        extra_answers=("notice", "success", *_each("start", _NODE)),
    ),
}

# Of Mindhold's own: no document has them.
BEYOND = {
    "batch_remember": Contract(
        required=("fragments",),
        enums={"fragments.type": KINDS, "fragments.scope": ("permanent", "session")},
        extra_arguments=(
            *_each("fragments", _STATEMENT)[1:],
            "project",
            "sessionId",
            "idempotencyKey",
            "dryRun",
            "agentId",
        ),
        extra_answers=(
            "success",
            "created",
            "failed",
            "dryRun",
            *_each("results", " ".join(("success id created error code", *_REMEMBERED))),
        ),
    ),
    "fragment_history": Contract(
        required=("id",),
        extra_arguments=("agentId",),
        extra_answers=(
            "notice",
            "success",
            "id",
            "status",
            "count",
            "earlier",
            "supersedes",
            "supersededBy",
            *_each(
                "versions", "number content type topic keywords importance isAnchor since until by changed"
            ),
        ),
    ),
    "reconstruct_history": Contract(
        required=("topic",),
        optional={"tokenBudget": 2000},
        extra_arguments=("project", "agentId"),
        extra_answers=(
            "notice",
            "success",
            "topic",
            "count",
            "leftOut",
            "totalTokens",
            "matched",
            "hint",
            *_each("decisions", _DECISION),
            *_each("decisions.linked", "id relation content")[1:],
        ),
    ),
}

_PROFILE = ("name", "preferences", "facts", *_each("contacts", "name relation"), "notes")
PROFILE = {
    "get_profile": Contract(gives=_PROFILE, extra_answers=("notice",)),
    "update_profile": Contract(
        extra_arguments=(
            "statement",
            "name",
            "preferences",
            "facts",
            *_each("contacts", "name relation"),
            "notes",
            "remove",
        ),
        gives=_PROFILE,
        extra_answers=("notice", "status", *_each("changes", "entry section value previous change")),
    ),
}

CONTRACTS = {
    "capture": CAPTURE | OF_REVIEW,
    "history": HISTORY,
    "assistant": ASSISTANT | PROFILE,
    "project": PROJECT,
    "fragments": FRAGMENTS | BEYOND,
}
