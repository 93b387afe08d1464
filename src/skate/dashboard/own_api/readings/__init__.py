"""Sources of the routes about libraries, and what is kept of them while a page asks.

announced.py     the announcements of a library
journal_tail.py  journals on disk, as they grow
metric_rows.py   the metrics of the session
curves.py        curves of reported metrics
rings.py         readings of the last minutes, rates and quantiles
plain.py         values for JSON
"""
