"""Output levels of a search, under the names of `ray.tune.experimental`."""
