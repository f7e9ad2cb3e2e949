"""Who may use a store: keys, OAuth grants and clients, sessions of HTTP clients, and stores limited to scopes."""
