"""The HTTP client: `Mindhold` is synchronous, `AsyncMindhold` is asynchronous."""
