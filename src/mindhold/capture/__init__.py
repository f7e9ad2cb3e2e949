"""Silent capture: from a conversation's file to memories, to CLAUDE.md, to what hooks show."""
