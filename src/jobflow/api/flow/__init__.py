"""The kinds of `flow.volcano.sh`: JobFlow, JobTemplate and CronJobFlow."""
