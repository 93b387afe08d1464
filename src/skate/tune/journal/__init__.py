"""What a search has come to, on disk: a line for each thing that happens, and now and then a snapshot of everything."""
