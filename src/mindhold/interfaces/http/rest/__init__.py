"""The REST resources over HTTP."""
