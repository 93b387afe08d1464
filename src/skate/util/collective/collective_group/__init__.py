"""Groups, one file a backend."""
