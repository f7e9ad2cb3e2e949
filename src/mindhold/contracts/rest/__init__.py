"""The operations as REST resources: one table, read by the server, the OpenAPI document and the client."""
