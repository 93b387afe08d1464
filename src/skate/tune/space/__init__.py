"""Search spaces: domains to draw from, grids, and the variants of a nested dict of them."""
