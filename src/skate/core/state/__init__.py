"""Rows for the state API, and queries of clients."""
