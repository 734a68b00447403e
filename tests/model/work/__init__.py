"""The kinds of work without vcjobs, which run as docs/reference.md says. `kinds` is their table."""
