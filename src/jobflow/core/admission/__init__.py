"""Judges JobFlows and JobTemplates: violations, which refuse an object, and warnings."""
