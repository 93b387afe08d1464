"""Running a search: a pure machine decides, the loop starts and stops the processes of trials."""
