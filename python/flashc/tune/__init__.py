"""`python -m flashc.tune`: finds the fastest schedule for each kind of attention on this machine's GPU."""
