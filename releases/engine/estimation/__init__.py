"""Distributions estimated from noisy tables. Post-processing: nothing here sees data, and nothing is paid for here."""
