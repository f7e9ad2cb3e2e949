"""Scopes, projects, their summaries, and the store that each project is in."""
