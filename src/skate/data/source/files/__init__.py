"""Files: what users say as paths, what that finds, how files are opened, shared out over tasks, and written.

filesystems  from paths and URLs to a filesystem and its paths
listing      which files there are, and how large
partitioning values that stand in the paths of files
streams      files opened, decompressed, tried again after errors that pass
grouping     files shared out over tasks
source       the base of datasources that read files
naming       the names of files that are written
sink         the base of datasinks that write files
"""
