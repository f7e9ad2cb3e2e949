"""The SQLite store, which is the default."""
