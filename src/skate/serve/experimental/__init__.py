"""What of Serve is public and may still change."""
