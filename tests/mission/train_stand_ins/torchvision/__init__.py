"""Stands in for torchvision, whose operators are not in every build of torch: what the documents use of it, on small data."""
