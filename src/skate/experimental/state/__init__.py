"""The older name of `ray.util.state`: `api`, `common` and `exception`."""
