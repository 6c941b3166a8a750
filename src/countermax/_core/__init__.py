"""What every room stands on; CONTRIBUTING.md says what each file is for."""
