"""Where bytes lie: private files and folders, temporary files, and the cache.

In: paths and keys. Out: files that only the site's account can read. Read ``private_files.py`` first.
"""
