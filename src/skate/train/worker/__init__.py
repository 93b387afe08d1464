"""The code in a worker process of a run: the training function, its API, and the connection to the controller."""
