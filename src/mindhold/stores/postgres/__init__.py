"""The PostgreSQL store, with pgvector if the server has it."""
