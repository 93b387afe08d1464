"""Storage of a run: its folder on any filesystem, atomic checkpoints, a journal of reports."""
