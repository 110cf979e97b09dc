"""Accounts, sign-in, organizations, members, invitations, API keys."""
