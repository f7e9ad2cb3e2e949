"""Contract suites and builders of records, shipped so that the author of a store or provider can run them."""
