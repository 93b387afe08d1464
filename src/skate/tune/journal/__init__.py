"""The state of a search on disk: a line for each event, and a complete snapshot at intervals."""
