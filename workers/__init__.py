"""Run the Celery workers and the scheduler. Tasks contain ids, never content."""
