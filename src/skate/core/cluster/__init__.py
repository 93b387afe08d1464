"""Several nodes: peers, remote objects, forwarded tasks, the actor directory."""
