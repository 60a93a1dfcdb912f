"""`python -m flashc.bench`: flashc beside every attention that is installed, on this machine's GPU."""
