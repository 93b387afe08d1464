"""Serve: beside Ray Serve and beside bare uvicorn."""
