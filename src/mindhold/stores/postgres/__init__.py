"""PostgreSQL, with pgvector where the server has it."""
