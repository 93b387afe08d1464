"""Ray's own examples of RLlib, run on Skate for one iteration each."""
