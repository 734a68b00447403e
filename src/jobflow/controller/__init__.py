"""The controller runs flows: event, owner key, queue, plan, apply."""
