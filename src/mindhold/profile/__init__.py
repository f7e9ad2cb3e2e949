"""The profile: what is known about the user."""
