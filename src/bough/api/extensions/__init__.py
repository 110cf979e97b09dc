"""Routes under /api/v2/bough/ that the published API does not have."""
