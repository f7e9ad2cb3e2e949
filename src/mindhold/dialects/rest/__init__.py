"""The operations of the catalogue as resources over HTTP: one table, read by the server, the document and the client."""
