"""Pages of live sessions.

In: a session's plan and what it has answered; never its secret threshold.
Out: `SessionPlan`, `SessionPage`, `SessionRow`. Read ``session_page.py`` first.
"""
