"""Names that Ray defines only here."""
