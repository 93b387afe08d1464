"""Clusters on machines that are reached by SSH, described by a file in Ray's format for clusters on premises.

`cluster_config` reads the file, `ssh` reaches one machine, `token` brings the secret there, `launch` starts and stops all of
them. Nothing here needs a node: these functions run on a laptop that has only `ssh` and `rsync`.
"""
