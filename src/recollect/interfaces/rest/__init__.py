"""The resources over HTTP."""
