"""The step methods: each file reads from the paper to the step class."""
