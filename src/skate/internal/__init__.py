"""Nothing: the package is there for programs that name it."""
