"""The HTTP door: who may come in, how much they may ask, and what is told about it."""
