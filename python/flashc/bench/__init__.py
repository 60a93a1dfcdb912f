"""`python -m flashc.bench`: times flashc and all other installed implementations of attention on this machine's GPU."""
