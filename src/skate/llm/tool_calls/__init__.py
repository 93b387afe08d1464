"""Tool calls: what clients may ask for, how a model is told of its tools, and parsers of the calls that it writes."""
