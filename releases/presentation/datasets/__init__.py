"""What the pages of a dataset show: its columns to be declared, and what another table could lend it.

In: forms, datasets and what services say. Out: one frozen value for each page or line. Read ``columns_page.py`` first.
"""
