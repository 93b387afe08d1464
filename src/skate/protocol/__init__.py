"""The protocol of the engine: messages between processes, effects of the core, and the records in them. No I/O.

All other parts build on it. `messages` has the numbers and, by direction, the records (`client_messages`,
`worker_messages`, `node_messages`, `peer_messages`, `driver_messages`); `fields` and `strategies` have their
components, `values` and `states` the kinds and states by name. `check` generates the comparisons with which
`shape` rejects received messages; `directory` defines who may send what; both sides state `version` when they
connect.
"""
