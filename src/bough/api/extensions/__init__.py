"""Routes under /api/v2/bough/, which extend the published API."""
