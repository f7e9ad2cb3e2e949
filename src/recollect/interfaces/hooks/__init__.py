"""What Claude Code runs: `recollect hook EVENT`."""
