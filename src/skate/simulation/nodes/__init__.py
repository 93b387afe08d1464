"""One node or several: the cores, their processes, disks, and the channels between them."""
