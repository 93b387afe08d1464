"""Remote functions: options, signatures, exports and submission."""
