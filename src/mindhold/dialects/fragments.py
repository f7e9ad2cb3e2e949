"""The fragments contract: atomic typed memories, their links, reflection and upkeep."""

from __future__ import annotations

from mindhold.dialects.fragments_answers import (
    AmendAnswer,
    BatchAnswer,
    ConsolidateAnswer,
    ContextAnswer,
    ExploreAnswer,
    FeedbackAnswer,
    ForgetAnswer,
    HistoryAnswer,
    LinkAnswer,
    RecallAnswer,
    ReconstructAnswer,
    ReflectAnswer,
    RememberAnswer,
    StatsAnswer,
)
from mindhold.dialects.fragments_forms import (
    AmendArguments,
    BatchArguments,
    ConsolidateArguments,
    ContextArguments,
    ExploreArguments,
    FeedbackArguments,
    ForgetArguments,
    HistoryArguments,
    LinkArguments,
    NoArguments,
    RecallArguments,
    ReconstructArguments,
    ReflectArguments,
    RememberArguments,
)
from mindhold.dialects.shape import Dialect, Tool

FRAGMENTS = Dialect(
    "fragments",
    "Atomic memories with types and links: the cycle of context, recall, remember and reflect.",
    (
        Tool(
            "context",
            "Load context",
            "Gives preferences, known errors, procedures and this conversation's working memory. Call it once when a "
            "conversation starts; for a subject use recall.",
            "context",
            ContextArguments,
            ContextAnswer,
        ),
        Tool(
            "remember",
            "Remember",
            "Stores what will matter next time: a decision and why, an error and its fix, a preference, a procedure, "
            "a fact. One statement a call. Not secrets, small talk, or what the code says. To correct use amend.",
            "remember",
            RememberArguments,
            RememberAnswer,
            fixed={"dialect": "fragments", "create_scope": True},
            idempotent=True,
        ),
        Tool(
            "recall",
            "Recall",
            "Finds memories by question, keywords, topic, type or time. Use it before you decide, debug or answer "
            "about earlier work. For whole conversations use memory_recall.",
            "recall",
            RecallArguments,
            RecallAnswer,
        ),
        Tool(
            "amend",
            "Amend",
            "Corrects a memory; only what you give changes, and what it said before is kept. Use it when "
            "something turns out wrong or has changed.",
            "amend",
            AmendArguments,
            AmendAnswer,
            idempotent=True,
        ),
        Tool(
            "forget",
            "Forget",
            "Hides a memory by id, or all of a topic. Use it when asked to, or when a memory is of no use; to "
            "correct one use amend.",
            "forget",
            ForgetArguments,
            ForgetAnswer,
            fixed={"everywhere": False},
            idempotent=True,
        ),
        Tool(
            "link",
            "Link",
            "Says how two memories relate, e.g. an error resolved_by a procedure.",
            "link",
            LinkArguments,
            LinkAnswer,
            idempotent=True,
        ),
        Tool(
            "reflect",
            "Reflect",
            "Keeps what a conversation came to, each point as its own memory. Call it once, when the work ends.",
            "reflect",
            ReflectArguments,
            ReflectAnswer,
            fixed={"create_scope": True},
        ),
        Tool(
            "tool_feedback",
            "Rate a tool's answer",
            "Records whether a memory tool's answer served, so that later ones rank better. Use it when an answer was far "
            "from what you needed, or when asked to rate it; not after every call.",
            "feedback",
            FeedbackArguments,
            FeedbackAnswer,
        ),
        Tool(
            "memory_stats",
            "Memory statistics",
            "Counts memories by type, tier, status and project, and says how many are found by meaning. Use it when asked "
            "about the memory itself; it finds nothing.",
            "stats",
            NoArguments,
            StatsAnswer,
        ),
        Tool(
            "memory_consolidate",
            "Consolidate",
            "Does the upkeep that is due now: tiers, fading, expiry, duplicates, contradictions, tidying. It runs by itself "
            "as well; call it only when asked to.",
            "consolidate",
            ConsolidateArguments,
            ConsolidateAnswer,
            idempotent=True,
        ),
        Tool(
            "graph_explore",
            "Explore causes",
            "Follows an error's links to what caused and what resolved it, up to five links away. Use it for root causes, "
            "after recall gave you the error's id; to search use recall.",
            "explore",
            ExploreArguments,
            ExploreAnswer,
        ),
        Tool(
            "batch_remember",
            "Remember several",
            "Stores up to 200 statements in one call, with an answer for each; one that fails keeps no other back. Use it "
            "for notes that you have already. For one use remember, for the end of a conversation reflect.",
            "remember_many",
            BatchArguments,
            BatchAnswer,
            fixed={"dialect": "fragments", "create_scope": True},
            idempotent=True,
        ),
        Tool(
            "fragment_history",
            "History of a memory",
            "All that one memory has said, oldest first: what changed, when and by whom. Use it when you doubt an "
            "amended memory; not to search, for which there is recall.",
            "versions",
            HistoryArguments,
            HistoryAnswer,
        ),
        Tool(
            "reconstruct_history",
            "Reconstruct decisions",
            "The decisions on a topic in order of time, superseded ones too, with what caused, contradicted or replaced "
            "them. Use it for how and why something came to be; for how it is now use recall.",
            "reconstruct",
            ReconstructArguments,
            ReconstructAnswer,
        ),
    ),
)
