"""What runs in a worker process of a run: the training function, what it may ask, and its way to the controller."""
