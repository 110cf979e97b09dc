"""Durable work. The rows of `operations` are both the queue and the public record."""
