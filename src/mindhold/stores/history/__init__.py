"""The index and the archive of past conversations on this machine."""
