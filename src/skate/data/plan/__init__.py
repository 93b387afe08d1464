"""The plan of a dataset: frozen records, one per operation, and the rules that optimize them.

operators   the records
rules       rewrites of a plan: fewer columns read, rows filtered where they are read, limits moved down
explain     a plan as text
"""
