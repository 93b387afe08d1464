"""The HTTP server beside a session: state, metrics and health, in a process of its own that starts on request."""
