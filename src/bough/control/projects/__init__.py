"""Projects: creation, settings, deletion, members, sharing, transfer."""
