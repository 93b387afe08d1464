"""Encoders and heads in torch."""
