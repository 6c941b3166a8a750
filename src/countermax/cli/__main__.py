"""`python -m countermax.cli` does what `countermax` does."""

from countermax.cli import main

main()
