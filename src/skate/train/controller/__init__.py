"""Controls a run: a pure machine decides, the controller executes its decisions."""
