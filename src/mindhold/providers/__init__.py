"""Models, services and transcripts behind the ports."""
