"""Profiles of running processes: a thread of each process counts where its threads spend CPU time, for as long as asked.

No process is traced or stopped, so this needs no privileges, and costs nothing while unused.
"""
