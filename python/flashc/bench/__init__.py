"""`python -m flashc.bench`: times flashc and every other attention that is installed, on this machine's GPU."""
