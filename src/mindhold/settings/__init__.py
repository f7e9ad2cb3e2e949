"""Every setting once, and the sources that settings are read from."""
