"""Parts of an algorithm: modules, learners and the names of their columns."""
