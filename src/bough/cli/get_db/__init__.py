"""`bough get-db`: creates an instant database and writes its connection strings to an environment file."""
