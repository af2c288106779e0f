"""The server's side of connections that stay in this process, for mocks and for ASGI applications."""
