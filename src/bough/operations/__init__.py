"""Durable work: the rows of `operations` are the queue, the record and the contract."""
