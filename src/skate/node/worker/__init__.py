"""Worker processes of a node: zygote, launcher, pool, environments."""
