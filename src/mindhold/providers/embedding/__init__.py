"""Embedding models: on this machine or behind a service."""
