"""Jobs: the programs that one node serves."""
