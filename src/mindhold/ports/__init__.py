"""Protocols that state what stores and providers promise."""
