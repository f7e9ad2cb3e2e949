"""What Claude Code runs: `mindhold hook EVENT` and `mindhold statusline`."""
