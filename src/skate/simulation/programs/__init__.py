"""The programs of scripted tasks and drivers, drawn at random."""
