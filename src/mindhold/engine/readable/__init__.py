"""Exports for people: what is remembered as one JSON document, as Markdown or as a table, told scope by scope."""
