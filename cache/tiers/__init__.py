"""The three places where an answer may lie, nearest first: the session, the recent window, the similar."""
