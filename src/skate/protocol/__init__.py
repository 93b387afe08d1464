"""The protocol of the engine: messages between processes, effects of the core, and the records in them. No I/O.

It stands below all other parts. `messages` has the numbers and, by direction, the records (`client_messages`, `worker_messages`,
`node_messages`, `peer_messages`, `driver_messages`); `fields` and `strategies` what they are made of, `values` and `states` the
kinds and states by name. `check` makes the comparisons that `shape` refuses received messages by; `directory` tells who may send
what; `version` is stated by both sides when they connect.
"""
