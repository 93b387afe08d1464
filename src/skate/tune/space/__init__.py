"""What is searched: domains to draw from, grids to go through, and the variants that come of a nested dict of them."""
