"""Random calls, damaged files and kills, judged by a slow second implementation: `make fuzz`."""
