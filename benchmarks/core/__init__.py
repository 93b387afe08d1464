"""Scenarios of the core API: start-up, tasks, actors, objects, waiting, memory and growth."""
