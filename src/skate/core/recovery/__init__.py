"""Recovery of a head: records of its registry, and what follows from them for another head."""
