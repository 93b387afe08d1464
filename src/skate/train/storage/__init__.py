"""Where a run keeps what it made: its folder on any filesystem, checkpoints written whole or not at all, a journal of reports."""
