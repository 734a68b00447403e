"""The page's own HTTP: who may ask, how fragments are rendered, what a stream sends."""
