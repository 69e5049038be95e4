"""Reports on plans as text, graphs and pages."""
