"""Messages, sessions, activity and summaries of conversations."""
