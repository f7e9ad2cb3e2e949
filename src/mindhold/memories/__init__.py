"""Memories: write, recall, rank, amend, forget, link, export and everything else that works on them."""
