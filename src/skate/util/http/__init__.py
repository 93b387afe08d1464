"""HTTP servers beside a session."""
