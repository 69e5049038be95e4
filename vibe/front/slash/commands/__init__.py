"""The slash commands, one module per subject: ``run_NAME`` carries a command out, ``NAME_picker`` lists its choices."""
