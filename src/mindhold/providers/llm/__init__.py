"""Language models: programs on this machine and services behind a network."""
