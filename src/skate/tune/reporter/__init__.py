"""How a search goes, shown while it runs."""
