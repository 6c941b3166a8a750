"""What every room stands on: errors, types, checks, labels, files, extras, progress."""
