"""One store over several: each project in the store of its storage mode."""
