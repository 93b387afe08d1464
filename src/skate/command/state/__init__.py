"""Commands about what the state API lists: print rows, one row or counts; end an actor."""
