"""Messages and stubs of Serve's own gRPC service, built at import: nothing here was generated."""
