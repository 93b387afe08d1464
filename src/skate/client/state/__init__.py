"""Queries of the state of the cluster."""
