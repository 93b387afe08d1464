"""Hooks for tracing: see `setup_local_tmp_tracing`."""
