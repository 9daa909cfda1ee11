"""What subsampling makes of a model, told before sampling."""
