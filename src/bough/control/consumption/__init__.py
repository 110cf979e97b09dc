"""The consumption of projects: counted, limited and reported."""
