"""The commands of ./workbook, a module each."""
