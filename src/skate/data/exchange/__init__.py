"""Operations that need rows of several blocks together: split each block into partitions, then merge each partition.

kernel      the contract between an operation and the engine
shuffle     rows in random order, or distributed evenly
sort        rows in order of their keys
aggregate   one row per group
groups      a function of each group
join        rows of two datasets that have the same key
hashing     which partition a key belongs to
"""
