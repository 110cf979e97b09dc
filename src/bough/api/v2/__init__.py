"""The management API: one module per resource with its request bodies, responses and handlers."""
