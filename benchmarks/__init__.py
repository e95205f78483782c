"""Measurements: what the software costs and reaches. No part of the installed package; read `tables.py` first."""
