"""Ways to sample: straight into columns, or through episodes and connectors."""
