"""Users, resource limits and privilege restrictions of computes."""
