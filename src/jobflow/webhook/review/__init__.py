"""An AdmissionReview from its bytes to the bytes of the answer."""
