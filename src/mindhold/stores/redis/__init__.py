"""The optional Redis sidecar of a store: keyword sets, a cache, activity and job wake-ups."""
