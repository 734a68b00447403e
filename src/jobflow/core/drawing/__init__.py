"""Pictures of a flow: positions of its steps, and the graph and the timeline as text and SVG."""
