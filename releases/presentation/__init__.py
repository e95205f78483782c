"""What pages show: one frozen value for each page, with numbers formatted, links resolved and sentences chosen.

In: models and what services and planning return. Out: values whose attributes a template reads. Nothing here writes.
Read ``results/result_page.py`` first.
"""
