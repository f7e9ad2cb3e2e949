"""Extraction by rules, for users who have no language model."""
