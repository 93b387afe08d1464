"""Tasks that arrive over a message queue: consumers, and the adapters of queue libraries."""
