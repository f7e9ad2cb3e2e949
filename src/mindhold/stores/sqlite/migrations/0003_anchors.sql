-- Anchors are few, and asked for by importance at the start of every conversation.

CREATE INDEX memory_anchor ON memory (importance, id) WHERE anchor = 1;
