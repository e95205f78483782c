"""One module for each kind of question; `releases/questions/base.py` finds every module here. Read `mean.py` first."""
