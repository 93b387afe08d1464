"""Actor classes, handles and methods."""
