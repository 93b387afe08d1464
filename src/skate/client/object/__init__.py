"""Object refs: get, wait, put, generators and views of shared memory."""
