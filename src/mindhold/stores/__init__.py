"""Where memories are stored: one package for each kind of store, and what they share."""
