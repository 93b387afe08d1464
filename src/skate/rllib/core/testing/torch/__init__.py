"""The small module and its learner, with torch."""
