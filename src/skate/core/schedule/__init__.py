"""Scheduling: which task runs on which node and worker, and when."""
