"""A folder for `sys.path`: `ray` is found here by processes that a program spawns, which do not inherit its finders."""
