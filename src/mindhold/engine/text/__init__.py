"""The pure text steps of intake: text in, values out; no store, no clock, no state."""
