"""The client half of the protocol, pure: messages in, messages and wake-ups out; no lock, socket, thread or clock."""
