"""Pages of what was published: answers, statistics, comparison of releases, certificates, downloads, registry.

In: files and receipts of published releases. Out: tables, charts and downloads. Read ``answers.py`` first.
"""
