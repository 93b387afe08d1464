"""Drivers in other processes: sockets, handshake, sessions."""
