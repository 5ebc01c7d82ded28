"""What is behind ./workbook: commands, verdicts, builds."""
