"""SAC in torch."""
