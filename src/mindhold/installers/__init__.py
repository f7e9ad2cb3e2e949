"""Changes the files of other programs to set Mindhold up in them, and restores them as they were."""
