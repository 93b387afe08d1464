"""Databases, table formats and queues: each through the library that its makers keep, imported when it is used."""
