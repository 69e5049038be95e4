"""Running a plan: effects become tasks, attempts go to executors, and commands come in from outside."""
