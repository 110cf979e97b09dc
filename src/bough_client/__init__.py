"""The Python client of Bough. It calls a platform over HTTP and imports nothing of the server."""
