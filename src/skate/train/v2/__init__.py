"""Names that Ray has in this place only."""
