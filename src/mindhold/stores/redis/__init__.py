"""Redis beside a store: keyword sets, a cache, activity and job wake-ups. Always optional."""
