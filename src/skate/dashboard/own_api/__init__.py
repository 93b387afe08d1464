"""The routes of the page about libraries, below `/api/skate/`: one file for each library."""
