"""Default networks of the algorithms: encoders, heads, and the catalog that chooses them."""
