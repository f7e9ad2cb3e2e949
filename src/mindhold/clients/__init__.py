"""The files of other programs that Mindhold is set up in: read, changed in place, and given back as they were."""
