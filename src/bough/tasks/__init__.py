"""Standing work: no input, repeatable, one sentence back."""
