"""Backups: create, verify, restore and schedule them."""
