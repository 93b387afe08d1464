"""Rows for the state API, and questions that clients ask."""
