"""What a dataset is to become, before anything runs: frozen records, one an operation, and the rules that better them.

operators   the records
rules       rewrites of a plan: fewer columns read, rows filtered where they are read, limits moved down
explain     a plan as text
"""
