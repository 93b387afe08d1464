"""Names that programs import from ``ray.rllib.utils``."""
