"""CronJobFlows: the times of a schedule, the flows of a schedule, and what to do next."""
