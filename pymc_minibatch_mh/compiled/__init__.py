"""Graphs and row functions, compiled to functions of fixed signatures."""
