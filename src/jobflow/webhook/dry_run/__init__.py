"""Pod templates that the API server tries without storing them."""
