"""Background jobs: the runner, what each job does, the schedule, and operations on the queue."""
