"""Functions over the rows of episodes, for learner connectors of one's own."""
