"""Services that keep what runs report: MLflow, Weights & Biases, Comet, Aim."""
