"""Messages and stubs of Serve's own gRPC service, made when they are imported: nothing here was generated."""
