"""Real servers for tests and benchmarks, from wheels: no Docker, nothing outside this machine."""
