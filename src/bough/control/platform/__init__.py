"""Parts of the installation that belong to no project. Imports no other package of control."""
