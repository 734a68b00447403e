"""Infrastructure of every process: event loop, HTTP listener, logs, groups of tasks."""
