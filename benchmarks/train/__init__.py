"""Training: beside Ray Train and beside bare torchrun, on the same cores."""
