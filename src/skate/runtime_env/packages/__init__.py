"""Packages of environments: pip, uv and conda, their requirement lists and installers."""
