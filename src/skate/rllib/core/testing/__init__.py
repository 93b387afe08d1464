"""A small module, its learner and its config, for tests of learners and of groups of them."""
