"""What any process here runs on: event loop, HTTP listener, logs, groups of tasks."""
