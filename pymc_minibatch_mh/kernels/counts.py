"""What updates count: entries of the counts of a draw, and columns of tallies."""

# Entries that updates add to.
ACCEPT, ACCEPTED, N_OBS, N_LOOKS, FULL_PASS, INVALID, ERROR, UNDERESTIMATED = range(8)
# Entries that hold the value of the last update.
LOG_RATIO, LOG_RATIO_STD = 8, 9
#: Largest |dU_i|/(c_i M) that was seen, above 1 of a violated bound, and the row that had it.
BOUND_RATIO, BOUND_ROW = 10, 11
# What the choice of χ is made from: Σ C M, their number; Σ of squared ratios, their number.
SIZES, N_SIZES, SQUARED_RATIOS, N_RATIOS = range(12, 16)
#: Rows that were bright in the last update of a firefly sampler.
N_BRIGHT = 16
#: Evaluations of the prior part by moves without rows.
N_PRIOR = 17
N_COUNTS = 18

# Columns of the tally that is kept for each component of the proposal.
TRIED, TALLY_ACCEPT, JUMP, SQUARE_JUMP, ROWS = range(5)
N_TALLIES = 5
