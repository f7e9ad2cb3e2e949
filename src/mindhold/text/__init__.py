"""Pure functions on text: no store, no clock, no state."""
