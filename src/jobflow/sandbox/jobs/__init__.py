"""Jobs as Volcano runs them: pods, policies and the state machine."""
