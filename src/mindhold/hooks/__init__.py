"""What a hook process runs on: the standard library only, and little of it."""
