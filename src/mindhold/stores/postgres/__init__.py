"""The PostgreSQL store, with pgvector where the server has it."""
