"""Random inputs and measures for laws."""
