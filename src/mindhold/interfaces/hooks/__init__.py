"""What Claude Code runs: `mindhold hook EVENT`."""
