"""How much a search says, by the names that programs know from `ray.tune.experimental`."""
