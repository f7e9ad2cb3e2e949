"""The `mindhold` command line."""
