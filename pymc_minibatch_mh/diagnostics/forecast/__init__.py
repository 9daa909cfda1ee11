"""The gain of subsampling, told before sampling."""
