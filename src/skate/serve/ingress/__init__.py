"""Reception of requests by HTTP and gRPC."""
