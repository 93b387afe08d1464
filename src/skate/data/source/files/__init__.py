"""Files: users' paths resolved to files, opened, divided among tasks, and written.

filesystems  from paths and URLs to a filesystem and its paths
listing      the files under the paths, with their sizes
partitioning values encoded in the paths of files
streams      files opened, decompressed, retried after transient errors
grouping     files divided among tasks
source       the base of datasources that read files
naming       the names of written files
sink         the base of datasinks that write files
"""
