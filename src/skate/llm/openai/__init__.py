"""OpenAI's HTTP API over engines: validates requests as OpenAI does, and returns answers and errors in its format."""
