"""Agent profiles, their files and their manager."""
