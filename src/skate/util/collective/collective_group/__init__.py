"""Groups, one file per backend."""
