"""Training with the libraries of Hugging Face."""
