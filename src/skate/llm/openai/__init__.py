"""OpenAI's HTTP API over engines: its requests checked as OpenAI checks them, its answers and errors in its shapes."""
