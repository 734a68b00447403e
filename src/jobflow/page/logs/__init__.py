"""The pane of logs: lines that are followed, and the file to download."""
