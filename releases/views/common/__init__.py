"""What several rooms of pages share: checks while typing, CSV downloads, the frame of wizards, error pages.

In: requests and forms. Out: parts of pages. Imports no other room of ``views``. Read ``wizard.py`` first.
"""
