"""The durable records of a head: stores that survive its process, and the thread that writes them."""
