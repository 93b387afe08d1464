"""Steers a run: a pure machine decides, the controller does what it says."""
