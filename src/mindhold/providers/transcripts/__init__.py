"""The conversations that agents keep on this machine."""
