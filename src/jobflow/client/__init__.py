"""What the command line, the page, flows in Python and the migration stand on."""
