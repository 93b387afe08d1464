"""The module of ``ray.experimental.util``, which programs import by this path: types of collective operations."""
