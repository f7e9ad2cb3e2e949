"""The MongoDB store, and the embedded mode with a private mongod."""
