"""Real servers from wheels, fake paid services and tiny models, for tests and benchmarks: nothing outside this machine."""
