"""Rules of steps: what they wait for, how often they run, and when they end."""
