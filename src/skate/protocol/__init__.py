"""The protocol of the engine: messages between processes, effects of the core, and the records in them. No I/O.

It stands below all other parts. `messages` has the numbers, `check` compares what arrives with the records.
"""
