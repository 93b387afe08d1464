"""Learners in torch."""
