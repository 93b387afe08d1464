"""Messages and stubs of Serve's own gRPC service. They are built at import; no file here is generated."""
