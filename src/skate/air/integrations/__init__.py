"""Experiment tracking services: MLflow, Weights & Biases, Comet, Aim."""
