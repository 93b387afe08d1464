"""An empty package, for programs that import it."""
