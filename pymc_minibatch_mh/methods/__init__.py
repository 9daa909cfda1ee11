"""The methods, a file each, and what several of them share."""
