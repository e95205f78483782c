"""Measurements of the site: pages under load, tables of databases, every column at a glance."""
