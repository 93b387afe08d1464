"""How requests come in by HTTP and gRPC."""
