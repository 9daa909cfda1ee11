"""Everything that reads all rows: the mode, the sums, the calibration."""
