"""Step methods of ``pm.sample``, one file per published test."""
