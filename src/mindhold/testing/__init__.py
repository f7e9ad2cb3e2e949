"""Contract suites, builders and real servers for tests, shipped so that a backend's author can run them."""
