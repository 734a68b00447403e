"""Plans what happens to a flow next: from its status and jobs to actions and a new status."""
