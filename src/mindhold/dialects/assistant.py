"""The assistant contract: scopes, tags and phrases of time, for an assistant that talks with a person."""

from __future__ import annotations

from mindhold.dialects.assistant_forms import (
    BackupAnswer,
    BackupArguments,
    CreateScopeArguments,
    DeleteAnswer,
    DeleteArguments,
    ExportAnswer,
    ExportArguments,
    FoundAnswer,
    NoArguments,
    OptimizeAnswer,
    RestoreAnswer,
    RestoreArguments,
    RetrieveArguments,
    ScopeAnswer,
    ScopeArguments,
    ScopeFoundAnswer,
    ScopesAnswer,
    StatsAnswer,
    StoreAnswer,
    StoreArguments,
    TagArguments,
    TimeAnswer,
    TimeArguments,
)
from mindhold.dialects.assistant_profile import PROFILE_TOOLS
from mindhold.dialects.shape import Dialect, Tool


def _deleting(name: str, title: str, description: str) -> Tool:
    return Tool(
        name,
        title,
        description,
        "forget",
        DeleteArguments,
        DeleteAnswer,
        fixed={"missing_ok": True, "drop_scope": True},
        idempotent=True,
    )


ASSISTANT = Dialect(
    "assistant",
    "Scopes, tags and phrases of time, for an assistant that talks with a person.",
    (
        Tool(
            "store_memory",
            "Store a memory",
            "Saves one piece of information for later conversations. Use it when the person asks you to remember "
            "something, or when something worth knowing came up.",
            "store",
            StoreArguments,
            StoreAnswer,
            fixed={"dialect": "assistant", "create_scope": True},
        ),
        Tool(
            "retrieve_memory",
            "Retrieve memories",
            "Finds what is remembered about a question, best first. Use it before you say that you don't know; for a "
            "time alone use recall_memory_by_time.",
            "recall",
            RetrieveArguments,
            FoundAnswer,
        ),
        Tool(
            "search_by_tag",
            "Memories with a tag",
            "Gives the memories that have a tag, in every scope; ranked when there is a query, else the newest first.",
            "recall",
            TagArguments,
            FoundAnswer,
            fixed={"everywhere": True},
        ),
        Tool(
            "search_by_scope",
            "Memories of a scope",
            "Gives the memories of one scope and no other; ranked when there is a query, else the newest and a digest "
            "of all.",
            "recall",
            ScopeArguments,
            ScopeFoundAnswer,
            fixed={"scope_only": True, "digest": True},
        ),
        Tool(
            "recall_memory_by_time",
            "Memories of a time",
            "Gives what is remembered of a time, oldest first; of very much the first, the last and a digest. Takes a "
            "phrase or exact limits; for a subject within a time use retrieve_memory with a time range.",
            "timeline",
            TimeArguments,
            TimeAnswer,
            fixed={"everywhere": False, "limit": 50, "overview": True},
        ),
        _deleting(
            "delete_memory",
            "Delete memories",
            "Forgets what the target names: one memory, a scope, a tag, or what a query finds; several narrow. Soft can "
            "be undone, hard can't. A query that finds many, or hard deletion of many, only lists them until you confirm.",
        ),
        _deleting("forget_memory", "Forget memories", "The same as delete_memory, by its other name."),
        Tool(
            "get_memory_stats",
            "Memory statistics",
            "Says how much is remembered, in which scopes, and when it was last backed up.",
            "stats",
            NoArguments,
            StatsAnswer,
        ),
        Tool(
            "backup_memory",
            "Back up",
            "Writes everything into a verified backup file now. Use it when asked to, or before something risky.",
            "backup",
            BackupArguments,
            BackupAnswer,
        ),
        Tool(
            "restore_memory",
            "Restore a backup",
            "Brings back what a backup holds and is missing now; makes a backup of the present state first. Only when "
            "asked to.",
            "restore",
            RestoreArguments,
            RestoreAnswer,
            idempotent=True,
        ),
        Tool(
            "optimize_memory",
            "Tidy up",
            "Does the upkeep that is due and says what it did. It runs by itself as well; call it only when asked to.",
            "maintain",
            NoArguments,
            OptimizeAnswer,
            fixed={"backup": False},
            idempotent=True,
        ),
        Tool(
            "create_memory_scope",
            "Create a scope",
            "Makes a scope with a description and keywords. Storing into a new scope makes it as well.",
            "create_scope",
            CreateScopeArguments,
            ScopeAnswer,
        ),
        Tool(
            "list_memory_scopes",
            "List scopes",
            "Lists every scope with its description and how many memories it has.",
            "list_scopes",
            NoArguments,
            ScopesAnswer,
        ),
        Tool(
            "export_memory",
            "Export",
            "Writes all memories, or one scope's, into a file of the export folder and names it. For taking data "
            "elsewhere: it is personal, tell so. For safety use backup_memory.",
            "export",
            ExportArguments,
            ExportAnswer,
        ),
        *PROFILE_TOOLS,
    ),
)
