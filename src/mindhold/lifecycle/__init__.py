"""The life of memories: consolidation, retention, maintenance, contradictions and the audit trail."""
