"""Rules of a flow as a whole: its children, schedule, concurrency group and size."""
