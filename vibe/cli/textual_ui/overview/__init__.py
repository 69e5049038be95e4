"""The overview of plan, agents, tasks, context and cost, beside the chat or in one line."""
